#include "train/schedule.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

constexpr ScheduleLength kLength{.steps_per_epoch = 10, .epochs = 4};

TEST(Schedule, ConstantStaysAtFullHeight) {
  const ScheduleOptions schedule{.shape = "constant"};
  for (int64_t step : {0, 1, 17, 39, 400}) {
    EXPECT_EQ(learning_rate_at(schedule, 0.3, kLength, step), 0.3) << step;
  }
}

TEST(Schedule, StepDropsAtTheBeginningOfEachNamedEpoch) {
  const ScheduleOptions schedule{.shape = "step", .drop_epochs = {1, 3}, .drop_factor = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 29), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 30), 0.01);
}

TEST(Schedule, CosineStartsFullPassesHalfAndEndsAtItsFinalFactor) {
  const ScheduleOptions schedule{.shape = "cosine", .final_factor = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 2.0, kLength, 0), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 2.0, kLength, 20), 2.0 * 0.6);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 2.0, kLength, 40), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 2.0, kLength, 4000), 0.4);
}

TEST(Schedule, CosineNeverRises) {
  const ScheduleOptions schedule{.shape = "cosine"};
  for (int64_t step = 1; step < 50; ++step) {
    EXPECT_LE(learning_rate_at(schedule, 1.0, kLength, step),
              learning_rate_at(schedule, 1.0, kLength, step - 1));
  }
}

TEST(Schedule, WarmUpRisesLinearlyToFullHeight) {
  const ScheduleOptions schedule{.shape = "constant", .warmup_epochs = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 5), 1.0);
}

TEST(Schedule, CosineAfterWarmUpSpansTheRestOfTheRun) {
  const ScheduleOptions schedule{.shape = "cosine", .warmup_epochs = 2};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 20), 1.0);
  EXPECT_NEAR(learning_rate_at(schedule, 1.0, kLength, 30), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate_at(schedule, 1.0, kLength, 40), 0.0, 1e-15);
}

TEST(Schedule, AWarmUpAsLongAsTheRunIsAllowed) {
  const ScheduleOptions schedule{.shape = "cosine", .warmup_epochs = 4};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 39), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, kLength, 40), 1.0);
}

}  // namespace
}  // namespace tern
