// What a report says of given weights, divergence, targets, classes, phases and use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/class_names.h"
#include "report/recorded_run.h"
#include "report/sampler.h"
#include "report/use.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

class LearningReportTest : public RecordedRunTest {
 protected:
  void sample(double seconds, const std::vector<Scalar>& values) {
    auto log = open_record_log(run_, kSamplesObject);
    ASSERT_TRUE(log.has_value());
    const SystemSample sample{.unix_ms = clock_.unix_ms(), .seconds = seconds, .values = values};
    ASSERT_TRUE((*log)->append(sample_line(sample, 1, lease_)));
    ASSERT_TRUE((*log)->sync());
  }
};

TEST_F(LearningReportTest, ARunWithoutAnyOfItSaysNothingOfIt) {
  begin("start", 0, 0);
  train(0, 10);
  const nlohmann::json object = report_json(report());
  for (const char* name : {"init", "target", "class_top1", "use"}) {
    EXPECT_EQ(object.at(name), nullptr) << name;
  }
  EXPECT_EQ(object.at("diverged"), nlohmann::json::array());
  EXPECT_EQ(object.at("worst_classes"), nlohmann::json::array());
  for (const char* row : {"\nweights", "\ndiverged", "\ntarget", "\nworst", "\nuse"}) {
    EXPECT_THAT(format_report(report()), Not(HasSubstr(row)));
  }
}

TEST_F(LearningReportTest, GivenWeightsAreToldWithTheirAccuracyBeforeTraining) {
  begin("start", 0, 0);
  record("init", {{"file", "r18.safetensors"},
                  {"sha256", "ab12"},
                  {"loaded", 120},
                  {"head_replaced", true},
                  {"top1", 0.5234},
                  {"top5", 0.9}});
  train(0, 10);
  evaluate(1, 0.9);
  begin("resume", 10, 0);  // no init record: it goes on with its own
  EXPECT_THAT(format_report(report()),
              HasSubstr("weights        given; top-1 52.34 %, top-5 90.00 % before training; 120 "
                        "tensors, new last layer: ...\n"));
  EXPECT_EQ(report_json(report()).at("init"), (nlohmann::json{{"file", "r18.safetensors"},
                                                              {"sha256", "ab12"},
                                                              {"loaded", 120},
                                                              {"head_replaced", true},
                                                              {"top1", 0.5234},
                                                              {"top5", 0.9}}));
  EXPECT_EQ(report().last_evaluation->top1, 0.9);
}

TEST_F(LearningReportTest, DivergenceIsToldWithWhatWasDone) {
  begin("start", 0, 0);
  train(0, 20);
  record("diverged", {{"step", 17},
                      {"loss", nullptr},
                      {"cause", "the loss is no number"},
                      {"done", "rolled_back"},
                      {"to_step", 10},
                      {"rate_factor", 0.5}});
  EXPECT_THAT(format_report(report()),
              HasSubstr("diverged       at step 17, back to step 10, rate x 0.5: the loss is no "
                        "number\n"));
  // The steps that were undone do not count once one of them is done again.
  train(10, 12);
  EXPECT_EQ(report().step, 12);
  record("diverged",
         {{"step", 18}, {"loss", 99.0}, {"cause", "the loss exploded"}, {"done", "stopped"}});
  EXPECT_THAT(format_report(report()),
              HasSubstr("2 times; last at step 18, where the run was stopped: the loss exploded"));
  const nlohmann::json lines = report_json(report()).at("diverged");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("loss"), nullptr);
  EXPECT_EQ(lines[0].at("to_step"), 10);
  EXPECT_EQ(lines[1].at("loss"), 99.0);
}

TEST_F(LearningReportTest, TheFirstTimeThatTheTargetIsReachedCounts) {
  begin("start", 0, 0);
  record("target", {{"epoch", 3},
                    {"step", 30},
                    {"hours", 1.5},
                    {"cost_usd", 2.25},
                    {"top1", 0.94},
                    {"top5", 0.99}});
  record("target", {{"epoch", 4}, {"step", 40}, {"hours", 9.0}, {"cost_usd", nullptr}});
  EXPECT_THAT(
      format_report(report()),
      HasSubstr("target         reached after epoch 3, in 1 h 30 min and for $2.2500: top-1 "
                "94.00 %, top-5 99.00 %\n"));
  EXPECT_EQ(report_json(report()).at("target").at("hours"), 1.5);
  EXPECT_EQ(report_json(report()).at("target").at("cost_usd"), 2.25);
}

TEST_F(LearningReportTest, TheFiveWorstClassesAreNamed) {
  begin("start", 0, 0);
  evaluate(1, 0.5);
  record("evaluation", {{"epoch", 2},
                        {"step", 20},
                        {"top1", 0.6},
                        {"class_top1", {0.9, 0.25, 0.8, 0.1, 0.7, 0.6, 0.25}}});
  EXPECT_THAT(format_report(report()),
              HasSubstr("worst classes  3: 10.0 %, 1: 25.0 %, 6: 25.0 %, 5: 60.0 %, 4: 70.0 %\n"));
  EXPECT_EQ(report_json(report()).at("worst_classes")[0],
            (nlohmann::json{{"class", 3}, {"top1", 0.1}}));
  EXPECT_EQ(report_json(report()).at("class_top1").size(), 7U);
  // By their names, as far as there are any.
  ASSERT_TRUE(run_.put(kClassNamesObject, "ant\nbee\ncat\ndog\n"));
  EXPECT_THAT(
      format_report(report()),
      HasSubstr("worst classes  dog: 10.0 %, bee: 25.0 %, 6: 25.0 %, 5: 60.0 %, 4: 70.0 %"));
  EXPECT_EQ(report_json(report()).at("worst_classes")[0].at("name"), "dog");
  // A list that is damaged is none; the one before it stands.
  record("evaluation", {{"epoch", 3}, {"step", 30}, {"top1", 0.6}, {"class_top1", {0.5, "x"}}});
  EXPECT_EQ(report().class_top1.size(), 7U);
}

TEST_F(LearningReportTest, EpochsAreCountedByTheRecordsWhereBatchesDiffer) {
  // By samples and batch an epoch would be 10 steps; with its phases it was 4, then 20.
  begin("start", 0, 0);
  auto log = open_record_log(run_, kMetricsObject);
  ASSERT_TRUE(log.has_value());
  const auto line = [&](const nlohmann::json& fields) {
    clock_.advance(std::chrono::seconds(1));
    nlohmann::json record = {{"lease", lease_}, {"ms", clock_.unix_ms()}};
    record.update(fields);
    ASSERT_TRUE((*log)->append(record.dump()));
    ASSERT_TRUE((*log)->sync());
  };
  for (int step = 1; step <= 4; ++step) line({{"step", step}, {"epoch", 0}});
  EXPECT_EQ(report().epochs_done, 0);
  line({{"epoch_done", 1}, {"step", 4}});
  EXPECT_EQ(report().epochs_done, 1);
  for (int step = 5; step <= 19; ++step) line({{"step", step}, {"epoch", 1}});
  EXPECT_EQ(report().epochs_done, 1);
  for (int step = 20; step <= 25; ++step) line({{"step", step}, {"epoch", 2}});
  EXPECT_EQ(report().epochs_done, 2);
  // Steps that were lost do not count until they are done again.
  begin("resume", 15, 10);
  EXPECT_EQ(report().epochs_done, 1);
}

TEST_F(LearningReportTest, UseIsMeanAndMaximumOverTheRunAndUtilisationIsUsefulWork) {
  begin("start", 0, 0);
  train(0, 10, {{"compute", 800'000}, {"fetch", 200'000}});
  sample(10, {{"gpu/power_watts", 600}, {"gpu/power_limit_watts", 700}, {"cpu_process_cores", 2}});
  sample(30, {{"gpu/power_watts", 200}, {"gpu/power_limit_watts", 700}, {"cpu_process_cores", 4}});
  end("stopped", 10, 10.0, {{"seconds", {{"compute", 8.0}, {"fetch", 2.0}}}});
  const nlohmann::json use = report_json(report()).at("use");
  EXPECT_EQ(use.at("samples"), 2);
  EXPECT_EQ(use.at("useful_share"), 0.8);
  EXPECT_NEAR(use.at("power_share").get<double>(), 300.0 / 700.0, 1e-9);
  EXPECT_EQ(use.at("values").at("gpu/power_watts"),
            (nlohmann::json{{"max", 600.0}, {"mean", 300.0}}));
  EXPECT_EQ(use.at("values").at("cpu_process_cores").at("mean"), 3.5);
  EXPECT_THAT(
      format_report(report()),
      HasSubstr("use            80 % of what compute alone would do, GPU power 300 of 700 W, "
                "3.5 cores\n"));
}

TEST(Use, DamagedSamplesArePassedOverAndCounted) {
  int64_t skipped = 0;
  const auto use = summarise_use({R"({"seconds":1,"values":{"a":2,"b":"x","c":-1}})", "half",
                                  R"({"seconds":0,"values":{"a":9}})", R"({"values":{"a":9}})",
                                  R"({"seconds":1,"values":[1]})"},
                                 skipped);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(skipped, 4);
  EXPECT_EQ(use->samples, 1);
  ASSERT_EQ(use->values.size(), 1U);
  EXPECT_EQ(use->values.at("a").mean, 2);
  EXPECT_FALSE(summarise_use({}, skipped).has_value());
}

}  // namespace
}  // namespace tern
