#include "train/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two phases of 4 and 2 epochs: 10 steps an epoch of 1 s, then 20 of 0.5 s.
RunPlan small_plan() {
  RunPlan plan{.recipe = "small", .model = "resnet18", .precision = "fp32"};
  plan.phases = {{.first_epoch = 0,
                  .end_epoch = 4,
                  .image_height = 128,
                  .image_width = 128,
                  .batch = 10,
                  .path = "small-copies",
                  .data_is_here = true,
                  .samples = 100,
                  .test_samples = 50,
                  .steps_per_epoch = 10,
                  .steps = 40,
                  .rate_begin = 0.1,
                  .rate_end = 0.4},
                 {.first_epoch = 4,
                  .end_epoch = 6,
                  .image_height = 224,
                  .image_width = 224,
                  .batch = 5,
                  .path = "whole",
                  .data_is_here = true,
                  .samples = 100,
                  .test_samples = 50,
                  .steps_per_epoch = 20,
                  .steps = 40,
                  .rate_begin = 0.2,
                  .rate_end = 0.01}};
  plan.phases[0].speed = {
      .steps = 20, .compute_step_s = 0.5, .data_step_s = 1.0, .evaluate_batch_s = 2.0};
  plan.phases[1].speed = {.steps = 20, .compute_step_s = 0.5, .evaluate_batch_s = 3.0};
  plan.epochs = 6;
  plan.steps = 80;
  plan.samples = 600;
  plan.probed_on = "cpu";
  return plan;
}

RunConfig small_config() {
  RunConfig config;
  config.train.epochs = 6;
  config.train.evaluate_batch = 20;
  config.checkpoint.every = std::chrono::seconds(3);
  return config;
}

TEST(RunPlan, TimeIsThatOfTheStepsEvaluationsAndCheckpoints) {
  RunPlan plan = small_plan();
  plan.save_s = 0.25;
  const auto time = predict_time(plan, small_config());
  ASSERT_TRUE(time.has_value());
  EXPECT_DOUBLE_EQ(time->train_s, 40 * 1.0 + 40 * 0.5) << "with data where that was measured";
  EXPECT_EQ(time->evaluations, 6);
  EXPECT_DOUBLE_EQ(time->evaluate_s, 3 * (4 * 2.0 + 2 * 3.0)) << "3 batches of at most 20";
  EXPECT_EQ(time->checkpoints, 6 * (1 + 3)) << "an epoch of 10 s has 3 within";
  EXPECT_DOUBLE_EQ(time->total_s, 60 + 42 + 6);
  EXPECT_FALSE(time->cost_microusd.has_value()) << "no price, no cost";
}

TEST(RunPlan, ARunThatStopsWithinAnEpochIsEvaluatedAtItsEnd) {
  RunPlan plan = small_plan();
  RunConfig config = small_config();
  config.train.evaluate_every = 3;
  EXPECT_EQ(predict_time(plan, config)->evaluations, 2);
  plan.phases[1].steps = 5;
  plan.steps = 45;
  EXPECT_EQ(predict_time(plan, config)->evaluations, 2) << "after epoch 3, and at step 45";
  config.train.evaluate_every = 0;
  EXPECT_EQ(predict_time(plan, config)->evaluations, 0);
}

TEST(RunPlan, CostFollowsThePriceAndATimeLimitCutsBoth) {
  RunPlan plan = small_plan();
  RunConfig config = small_config();
  plan.price_microusd_per_hour = 3'600'000;
  EXPECT_EQ(predict_time(plan, config)->cost_microusd, 102'000);
  config.train.time_limit = std::chrono::seconds(50);
  const auto time = predict_time(plan, config);
  EXPECT_TRUE(time->is_cut);
  EXPECT_EQ(time->cost_microusd, 50'000);
}

TEST(RunPlan, NothingIsPredictedOfAPhaseThatDoesNotFitOrWasNotMeasured) {
  RunPlan plan = small_plan();
  plan.phases[1].speed->fits = false;
  EXPECT_FALSE(predict_time(plan, small_config()).has_value());
  plan.phases[1].speed.reset();
  EXPECT_FALSE(predict_time(plan, small_config()).has_value());
  plan.phases[1].steps = 0;  // train.steps ends the run before
  plan.steps = 40;
  EXPECT_TRUE(predict_time(plan, small_config()).has_value());
}

TEST(RunPlan, TheCurveRisesFromTheLowestToTheHighestGlyph) {
  std::vector<RatePoint> curve;
  for (int i = 0; i < 9; ++i) curve.push_back({.rate = i / 8.0});
  EXPECT_EQ(sparkline(curve, Glyphs::ascii), "_.:-=+*##");
  EXPECT_EQ(sparkline(curve, Glyphs::utf8), "▁▂▃▄▅▆▇██");
  EXPECT_EQ(sparkline({{.rate = 0}, {.rate = 0}}, Glyphs::ascii), "__") << "no rate at all";
}

TEST(RunPlan, TextIsPlainAsciiUnlessAskedAndNoWiderThanAScreen) {
  RunPlan plan = small_plan();
  for (int i = 0; i < 60; ++i) plan.curve.push_back({.rate = 1e-5 * i});
  plan.warnings = {std::string(300, 'w')};
  const std::string text = format_run_plan(plan, Glyphs::ascii);
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; }));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_THAT(text, HasSubstr("0 to 0.00059"));
  EXPECT_THAT(format_run_plan(plan, Glyphs::utf8), HasSubstr("█"));
}

TEST(RunPlan, WhatIsNotKnownIsAQuestionMarkAndNullNeverZero) {
  RunPlan plan{.recipe = "unknown", .model = "resnet18", .precision = "fp32", .epochs = 3};
  plan.phases = {{.end_epoch = 3, .batch = 8, .path = "nowhere"}};
  const std::string text = format_run_plan(plan, Glyphs::ascii);
  EXPECT_THAT(text, HasSubstr("no nowhere"));
  EXPECT_THAT(text, HasSubstr("?"));
  const auto json = run_plan_json(plan);
  EXPECT_TRUE(json["steps"].is_null());
  EXPECT_TRUE(json["parameters"].is_null());
  EXPECT_TRUE(json["phases"][0]["steps"].is_null());
  EXPECT_FALSE(json.contains("predicted")) << "nothing was measured";
}

TEST(RunPlan, JsonSurvivesAPathThatIsNoText) {
  RunPlan plan = small_plan();
  plan.phases[0].path = "\xff\xfe";
  plan.time = predict_time(plan, small_config());
  const auto json = run_plan_json(plan);
  EXPECT_EQ(json["steps"], 80);
  EXPECT_EQ(json["phases"][1]["image_size"], 224);
  EXPECT_TRUE(json["phases"][1]["data_step_seconds"].is_null());
  EXPECT_DOUBLE_EQ(json["phases"][0]["data_samples_per_second"], 10.0);
  EXPECT_TRUE(json["predicted"]["cost_usd"].is_null());
  EXPECT_THAT(json.dump(), Not(HasSubstr("NaN")));
}

}  // namespace
}  // namespace tern
