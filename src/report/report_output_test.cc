#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "report/recorded_run.h"
#include "report/run_report.h"

namespace tern {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ReportOutputTest : public RecordedRunTest {};

TEST_F(ReportOutputTest, JsonHasTheNamesOthersRelyOn) {
  begin("start", 0, 0);
  train(0, 17);
  begin("resume", 10, 7);
  train(10, 40);
  evaluate(3, 0.92);
  evaluate(4, 0.915);
  checkpoint(40);
  end("done", 40, 30.0);
  const json object = report_json(report());
  EXPECT_EQ(object.at("status"), "done");
  EXPECT_EQ(object.at("step"), 40);
  EXPECT_EQ(object.at("top1"), 0.915);
  EXPECT_EQ(object.at("top5"), 0.99);
  EXPECT_EQ(object.at("loss"), 0.25);
  EXPECT_EQ(object.at("best_top1"), 0.92);
  EXPECT_EQ(object.at("best_epoch"), 3);
  EXPECT_EQ(object.at("steps_lost"), 7);
  EXPECT_EQ(object.at("interruptions"), 1);
  EXPECT_EQ(object.at("wall_seconds"), 47.0);
  EXPECT_EQ(object.at("samples_per_second"), 10.0);
  EXPECT_EQ(object.at("epochs_done"), 4);
  EXPECT_EQ(object.at("checkpoint_bytes"), 1'500'000);
  EXPECT_TRUE(object.at("cost_microusd").is_null());
  EXPECT_EQ(object.at("processes").size(), 2U);
  EXPECT_EQ(object.at("processes")[0].at("ended"), "killed without a word");
}

TEST_F(ReportOutputTest, JsonTellsWhereTheTimeWentAndOnWhat) {
  begin("start", 0, 0,
        {{"machine", {{"cpu", "AMD EPYC 9R14"}, {"cores", 2}, {"cpu_features", {"avx2"}}}},
         {"device", "cuda:0"},
         {"libtorch", "2.11.0"},
         {"fingerprint", "0123456789abcdef"},
         {"gpu", {{"name", "NVIDIA H200"}, {"driver", "580.1"}, {"capability", "9.0"}}}});
  train(0, 40);
  end("done", 40, 50.0,
      {{"seconds", {{"start", 10.0}, {"compute", 40.0}}},
       {"cpu_user_seconds", 80.0},
       {"cpu_system_seconds", 5.0},
       {"peak_memory_bytes", 1'000'000},
       {"gpu",
        {{"name", "NVIDIA H200"},
         {"compute_seconds", 25.0},
         {"energy_joules", 15'000.0},
         {"steps", 40},
         {"dry_steps", 38},
         {"peak_memory_bytes", 2'000'000}}}});
  const json object = report_json(report());
  EXPECT_EQ(object.at("seconds").size(), kSpans - 1);  // nobody waited for other ranks
  EXPECT_EQ(object.at("seconds").at("compute"), 40.0);
  EXPECT_EQ(object.at("seconds").at("queue"), 0.0);
  EXPECT_EQ(object.at("compute_samples_per_second"), 10.0);
  EXPECT_EQ(object.at("cpu_user_seconds"), 80.0);
  EXPECT_EQ(object.at("cpu_system_seconds"), 5.0);
  EXPECT_EQ(object.at("peak_memory_bytes"), 1'000'000);
  EXPECT_EQ(object.at("gpu").at("name"), "NVIDIA H200");
  EXPECT_EQ(object.at("gpu").at("driver"), "580.1");
  EXPECT_EQ(object.at("gpu").at("compute_seconds"), 25.0);
  EXPECT_EQ(object.at("gpu").at("activity"), 0.5);
  EXPECT_EQ(object.at("gpu").at("energy_joules"), 15'000.0);
  EXPECT_EQ(object.at("gpu").at("dry_steps"), 38);
  EXPECT_EQ(object.at("gpu").at("mean_power_watts"), 300.0);
  EXPECT_EQ(object.at("gpu").at("peak_memory_bytes"), 2'000'000);
  EXPECT_EQ(object.at("machine"),
            json({{"cpu", "AMD EPYC 9R14"}, {"cores", 2}, {"cpu_features", {"avx2"}}}));
  EXPECT_EQ(object.at("device"), "cuda:0");
  EXPECT_EQ(object.at("libtorch"), "2.11.0");
  EXPECT_EQ(object.at("fingerprint"), "0123456789abcdef");
  EXPECT_THAT(object.at("verdict").get<std::string>(), testing::StartsWith("start-bound: 20 %"));
}

TEST_F(ReportOutputTest, EveryFieldOfTheJsonIsInTheDocumentation) {
  std::ifstream file(TERN_SOURCE_DIR "/docs/format_report.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  begin("start", 0, 0, {{"gpu", {{"name", "NVIDIA H200"}}}});
  const json object = report_json(report());
  for (const auto& [name, value] : object.items()) {
    EXPECT_THAT(page, HasSubstr("`" + name + "`"));
    const json& inner = value.is_array() && !value.empty() ? value[0] : value;
    if (!inner.is_object()) continue;
    for (const auto& [field, unused] : inner.items())
      EXPECT_THAT(page, HasSubstr("`" + field + "`"));
  }
}

TEST_F(ReportOutputTest, JsonOfARunWithoutEvaluationHasNulls) {
  begin("start", 0, 0);
  end("stopped", 0, 0.0);
  const json object = report_json(report());
  for (const char* name :
       {"top1", "top5", "loss", "best_top1", "train_loss", "gpu", "machine", "device",
        "fingerprint", "libtorch", "branched_from", "cpu_user_seconds", "cpu_system_seconds",
        "peak_memory_bytes", "compute_samples_per_second"}) {
    EXPECT_TRUE(object.at(name).is_null()) << name;
  }
  EXPECT_EQ(object.at("samples_per_second"), 0.0);
}

TEST(ReportJsonTest, ANameThatIsNoUtf8CanBeDumped) {
  RunReport report;
  report.run = "runs/\xff";
  EXPECT_EQ(report_json(report).at("run"), "runs/\xEF\xBF\xBD");
}

TEST_F(ReportOutputTest, TextTellsTheStory) {
  begin("start", 0, 0);
  train(0, 17);
  begin("resume", 10, 7);
  train(10, 40);
  evaluate(3, 0.92);
  evaluate(4, 0.915);
  checkpoint(40);
  record("warning", {{"what", "checkpoint 9 is damaged"}, {"step", 10}});
  end("done", 40, 30.0);
  const std::string text = format_report(report());
  for (const char* phrase :
       {"run runs/demo: done\n", "ended          all epochs are trained\n",
        "progress       step 40 of 40, 4 of 4 epochs\n",
        "accuracy       top-1 91.50 %, top-5 99.00 % after epoch 4; best 92.00 % after epoch 3\n",
        "loss           0.0250 in training, 0.2500 on the test data\n",
        "throughput     10.0 samples/s over 470 samples\n", "wall time             47 s\n",
        "verdict        too little to tell: the records do not say where the time went\n",
        "interruptions  1, 7 steps lost\n", "checkpoints    1 published, the newest of 1.5 MB\n",
        "killed without a word\n", "warning        checkpoint 9 is damaged\n"}) {
    EXPECT_THAT(text, HasSubstr(phrase));
  }
  EXPECT_THAT(text, Not(HasSubstr("next  ")));
}

TEST(ReportTextTest, BadSamplesAreCountedAndTheFirstIsNamed) {
  RunReport report;
  EXPECT_THAT(format_report(report), Not(HasSubstr("bad samples")));
  report.bad_samples = {
      {.sample = "a.jpg in 0.shard at 16", .cause = "ends early", .done = "skipped"},
      {.sample = "b.jpg", .cause = "no image", .done = "skipped"}};
  EXPECT_THAT(format_report(report),
              HasSubstr("bad samples    2, skipped: a.jpg in 0.shard at 16: ends early\n"));
  EXPECT_EQ(report_json(report)["bad_samples"].size(), 2U);
  EXPECT_EQ(report_json(report)["bad_samples"][1]["cause"], "no image");
}

TEST(ReportTextTest, TheBestIsShownOnlyIfItIsBetterThanTheLast) {
  RunReport report;
  report.best_evaluation = EvaluationLine{.epoch = 3, .step = 30, .top1 = 0.5};
  report.last_evaluation = EvaluationLine{.epoch = 4, .step = 40, .top1 = 0.5};
  EXPECT_THAT(format_report(report), Not(HasSubstr("best")));
  report.best_evaluation->top1 = 0.51;
  EXPECT_THAT(format_report(report), HasSubstr("; best 51.00 % after epoch 3"));
}

TEST(ReportTextTest, StepsLostWithoutAnInterruptionSayByWhat) {
  RunReport report;
  EXPECT_THAT(format_report(report), HasSubstr("interruptions  none\n"));
  report.steps_lost = 9;
  EXPECT_THAT(format_report(report), HasSubstr("interruptions  none, but 9 steps lost to a save "
                                               "that failed or a checkpoint that was damaged\n"));
  report.interruptions = 2;
  EXPECT_THAT(format_report(report), HasSubstr("interruptions  2, 9 steps lost\n"));
}

TEST(ReportTextTest, TheMachinesThatARunWentThroughAreNamedInOrder) {
  RunReport report;
  report.interruptions = 2;
  report.steps_lost = 9;
  report.processes = {{.host = "a"}, {.host = "a"}, {.host = "b"}};
  EXPECT_THAT(format_report(report), HasSubstr("interruptions  2, 9 steps lost; on a, b\n"));
  for (const char* host : {"c", "d", "e", "f", "g"}) report.processes.push_back({.host = host});
  EXPECT_THAT(format_report(report), HasSubstr("9 steps lost; on a, b, ..., e, f, g\n"));
}

TEST(ReportTextTest, AnythingFitsAScreenAndMovesNoCursor) {
  const std::string tall =
      "\x1b[2J" + std::string(300, 'x') + "\n" + std::string(500, ' ') + "\xC3\xA4";
  std::string prose;
  for (int i = 0; i < 200; ++i) prose += "word\r\n";
  RunReport report;
  report.run = tall;
  report.reason = prose + tall;
  report.next_step = prose;
  report.recipe = tall;
  report.step = report.total_steps = report.epochs = report.samples = int64_t{1} << 53;
  report.samples_per_second = 1e18;
  report.wall_seconds = 1e12;
  report.train_loss = 1e300;
  report.last_evaluation = report.best_evaluation = EvaluationLine{.loss = 1e300, .top1 = 1e300};
  report.cost_microusd = int64_t{1} << 53;
  report.checkpoints = 1;
  report.warnings.assign(50, prose);
  report.bad_samples.assign(50, {.sample = prose, .cause = tall, .done = "skipped"});
  const ProcessLine process = {.host = tall,
                               .pid = int64_t{1} << 53,
                               .first_step = 1LL << 53,
                               .last_step = 1LL << 53,
                               .wall_seconds = 1e12,
                               .ended = tall};
  report.processes.assign(50, process);
  report.branched_from = tall;
  report.compute_samples_per_second = 1e18;
  for (double& seconds : report.seconds.values) seconds = 1e10;
  report.cpu_user_seconds = report.cpu_system_seconds = report.cores_busy = 1e12;
  report.peak_memory_bytes = int64_t{1} << 53;
  report.gpu = GpuLine{.name = tall, .driver = tall, .activity = 1e9, .mean_power_watts = 1e15};
  report.machine = Machine{.cpu = tall, .kernel = prose, .instance_type = tall};
  report.libtorch = report.device = report.verdict = prose;

  report.init = InitLine{.file = tall, .top1 = 1e300, .top5 = 1e300};
  report.diverged.assign(50, {.step = 1LL << 53, .cause = tall, .done = "rolled_back"});
  report.target = TargetLine{.epoch = 1LL << 53, .hours = 1e15, .cost_usd = 1e15, .top1 = 1e300};
  report.class_top1.assign(1000, 0.5);
  report.use = UseLine{.values = {{"gpu/power_watts", {1e15, 1e15}},
                                  {"gpu/power_limit_watts", {1e15, 1e15}},
                                  {"gpu/sm_clock_mhz", {1e15, 1e15}},
                                  {"cpu_process_cores", {1e15, 1e15}},
                                  {"disk_read_bytes_per_second", {1e15, 1e15}}}};

  report.ranks = RanksLine{.world = 1LL << 53,
                           .lost = 1LL << 53,
                           .longest_gap_s = 1e15,
                           .bytes_per_step = int64_t{1} << 53};

  const std::string text = format_report(report);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40) << text;
  size_t column = 0;
  for (char byte : text) {
    column = byte == '\n' ? 0 : column + ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80U);
    ASSERT_LE(column, 100U) << text;
    ASSERT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= 0x20U) << text;
  }
  EXPECT_THAT(text, HasSubstr("the last 1 of 50"));
  EXPECT_THAT(text, HasSubstr("and 49 before these"));
}

}  // namespace
}  // namespace tern
