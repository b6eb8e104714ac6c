#include "train/schedule.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

const Timeline kTimeline({{.epochs = 4, .steps_per_epoch = 10, .batch = 32}});

double rate_at(const ScheduleOptions& schedule, double full_rate, int64_t step) {
  RunConfig config;
  config.schedule = schedule;
  config.optimizer.learning_rate = full_rate;
  return learning_rate_at(config, kTimeline, step);
}

TEST(Schedule, ConstantStaysAtFullHeight) {
  const ScheduleOptions schedule{.shape = "constant"};
  for (int64_t step : {0, 1, 17, 39, 400}) {
    EXPECT_EQ(rate_at(schedule, 0.3, step), 0.3) << step;
  }
}

TEST(Schedule, StepDropsAtTheBeginningOfEachNamedEpoch) {
  const ScheduleOptions schedule{.shape = "step", .drop_epochs = {1, 3}, .drop_factor = 0.1};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 9), 1.0);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 10), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 29), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 30), 0.01);
}

TEST(Schedule, CosineStartsFullPassesHalfAndEndsAtItsFinalFactor) {
  const ScheduleOptions schedule{.shape = "cosine", .final_factor = 0.2};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 0), 2.0);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 20), 2.0 * 0.6);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 40), 0.4);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 4000), 0.4);
}

TEST(Schedule, CosineNeverRises) {
  const ScheduleOptions schedule{.shape = "cosine"};
  for (int64_t step = 1; step < 50; ++step) {
    EXPECT_LE(rate_at(schedule, 1.0, step), rate_at(schedule, 1.0, step - 1));
  }
}

TEST(Schedule, WarmUpRisesLinearlyToFullHeight) {
  const ScheduleOptions schedule{.shape = "constant", .warmup_epochs = 0.5};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 0), 0.2);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 3), 0.8);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 4), 1.0);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 5), 1.0);
}

TEST(Schedule, CosineAfterWarmUpSpansTheRestOfTheRun) {
  const ScheduleOptions schedule{.shape = "cosine", .warmup_epochs = 2};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 20), 1.0);
  EXPECT_NEAR(rate_at(schedule, 1.0, 30), 0.5, 1e-15);
  EXPECT_NEAR(rate_at(schedule, 1.0, 40), 0.0, 1e-15);
}

TEST(Schedule, AWarmUpAsLongAsTheRunIsAllowed) {
  const ScheduleOptions schedule{.shape = "cosine", .warmup_epochs = 4};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 39), 1.0);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 1.0, 40), 1.0);
}

TEST(Schedule, InverseSquareRootIsFullAtTheEndOfTheWarmUp) {
  const ScheduleOptions schedule{.shape = "inverse-sqrt", .warmup_epochs = 1};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 4), 1.0);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 9), 2.0);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 2.0, 39), 1.0);
}

// 128 px for two epochs, 224 px for two with batches of half the size.
RunConfig config_in_pieces() {
  RunConfig config;
  config.optimizer.learning_rate = 2;
  config.schedule.shape = "pieces";
  config.lr_phase = {{.epochs = {0, 1}, .rate = {1, 2}},
                     {.epochs = {1, 2.5}, .rate = {2, 0.5}},
                     {.epochs = {2.5, 4}, .rate = {0.1}}};
  return config;
}
const Timeline kTwoPhases({{.epochs = 2, .steps_per_epoch = 10, .batch = 32},
                           {.epochs = 2, .steps_per_epoch = 20, .batch = 16}});

TEST(Schedule, PiecesAreStraightLinesBetweenTheirEnds) {
  const RunConfig config = config_in_pieces();
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 0), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 5), 3.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 10), 4.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 20), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 29), 2 * (2 - 1.5 * 1.45 / 1.5));
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 30), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 59), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 6000), 0.2);
}

TEST(Schedule, APieceByTheEpochStaysAsItIsWithinOne) {
  RunConfig config = config_in_pieces();
  config.lr_phase = {{.epochs = {0, 4}, .rate = {1, 0}, .by = "epoch"}};
  for (const int64_t step : {0, 9}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, step), 2.0);
  }
  for (const int64_t step : {20, 39}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, step), 1.0);
  }
}

TEST(Schedule, TheRateFollowsTheBatchWhereAReferenceIsGiven) {
  RunConfig config = config_in_pieces();
  config.lr_phase = {{.epochs = {0, 4}, .rate = {1}}};
  config.schedule.reference_batch = 64;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 19), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, kTwoPhases, 20), 0.5);
}

}  // namespace
}  // namespace tern
