#include "report/rank_loads.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

// 100 steps of a second. Rank 1 computes 0.8 s of it, the others 0.5 s; data takes 0.1 s, and the
// network 0.1 s, which the last one waits too.
GroupTime uneven() {
  return {.steps = 100,
          .step_seconds = 100,
          .wait_seconds = 100 * (0.4 + 0.1 + 0.4) / 3,
          .data_seconds = 10,
          .communication_seconds = 10,
          .samples_each = 1000};
}
std::vector<RankLoad> uneven_loads() {
  return {{.name = "a", .steps = 100, .busy_seconds = 60, .data_seconds = 10},
          {.name = "b", .steps = 100, .busy_seconds = 90, .data_seconds = 10},
          {.name = "c", .steps = 100, .busy_seconds = 60, .data_seconds = 10}};
}

TEST(RankLoads, TheSlowestIsNamedWithWhatTheOthersWaitedForIt) {
  const auto slowest = find_slowest(uneven_loads());
  ASSERT_TRUE(slowest.has_value());
  EXPECT_EQ(slowest->name, "b");
  EXPECT_NEAR(slowest->seconds, 30, 1e-9);
  EXPECT_NEAR(slowest->ratio, 1.5, 1e-9);
}

TEST(RankLoads, OneThatDidFewStepsSaysNothing) {
  std::vector<RankLoad> loads = uneven_loads();
  loads[1].steps = 49;
  EXPECT_FALSE(find_slowest(loads).has_value());
  EXPECT_FALSE(find_slowest({loads[0]}).has_value());
  EXPECT_FALSE(find_slowest({}).has_value());
}

TEST(RankLoads, WhatAteTheTimeAddsUpToAllOfIt) {
  const auto scaling = scaling_of(uneven(), uneven_loads());
  ASSERT_TRUE(scaling.has_value());
  EXPECT_FALSE(scaling->is_against_alone);
  EXPECT_NEAR(scaling->efficiency, 0.5, 1e-9);
  EXPECT_NEAR(scaling->communication, 0.1, 1e-9);
  EXPECT_NEAR(scaling->data, 0.1, 1e-9);
  EXPECT_NEAR(scaling->straggling, 0.3, 1e-9);
  EXPECT_NEAR(scaling->rest, 0, 1e-9);
}

TEST(RankLoads, ARankThatTrainedAloneIsTheBetterMeasure) {
  GroupTime group = uneven();
  group.alone_samples = 500;
  group.alone_seconds = 20;  // 25 samples a second; in the group the fastest does 20
  const auto scaling = scaling_of(group, uneven_loads());
  ASSERT_TRUE(scaling.has_value());
  EXPECT_TRUE(scaling->is_against_alone);
  EXPECT_NEAR(scaling->efficiency, 0.4, 1e-9);
  EXPECT_NEAR(scaling->rest, 0.1, 1e-9);
}

TEST(RankLoads, WithoutStepsOfSeveralNothingIsSaid) {
  EXPECT_FALSE(scaling_of({}, {}).has_value());
  EXPECT_FALSE(scaling_of({.alone_samples = 10, .alone_seconds = 1}, {}).has_value());
}

}  // namespace
}  // namespace tern
