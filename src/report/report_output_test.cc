#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

TEST_F(ReportOutputTest, JsonOfARunWithoutEvaluationHasNulls) {
  begin("start", 0, 0);
  end("stopped", 0, 0.0);
  const json object = report_json(report());
  for (const char* name : {"top1", "top5", "loss", "best_top1", "train_loss"}) {
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
        "throughput     10.0 samples/s over 470 samples\n", "wall time      47 s\n",
        "interruptions  1, 7 steps lost\n", "checkpoints    1 published, the newest of 1.5 MB\n",
        "killed without a word\n", "warning        checkpoint 9 is damaged\n"}) {
    EXPECT_THAT(text, HasSubstr(phrase));
  }
  EXPECT_THAT(text, Not(HasSubstr("next  ")));
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
  const ProcessLine process = {.host = tall,
                               .pid = int64_t{1} << 53,
                               .first_step = 1LL << 53,
                               .last_step = 1LL << 53,
                               .wall_seconds = 1e12,
                               .ended = tall};
  report.processes.assign(50, process);

  const std::string text = format_report(report);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30) << text;
  size_t column = 0;
  for (char byte : text) {
    column = byte == '\n' ? 0 : column + ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80U);
    ASSERT_LE(column, 100U) << text;
    ASSERT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= 0x20U) << text;
  }
  EXPECT_THAT(text, HasSubstr("and 45 before these"));
  EXPECT_THAT(text, HasSubstr("and 47 before these"));
}

}  // namespace
}  // namespace tern
