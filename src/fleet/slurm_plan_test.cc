#include "fleet/slurm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Nanoseconds kNow = std::chrono::seconds(100);

// A plan whose machines all run.
SlurmPlan running(size_t machines, int64_t restarts = 0) {
  SlurmPlan plan(machines, restarts);
  for (size_t i = 0; i < machines; ++i) plan.started(i, kNow);
  return plan;
}

TEST(SlurmPlan, StartsAllMachinesAtOnce) {
  const SlurmPlan plan(3, 0);
  EXPECT_THAT(plan.due(kNow), ElementsAre(0, 1, 2));
  EXPECT_FALSE(plan.outcome());
  EXPECT_FALSE(running(3).outcome());
}

TEST(SlurmPlan, OneThatIsToldToLeaveTakesTheOthersAlongAndTheJobIsRequeued) {
  SlurmPlan plan = running(3);
  plan.ended(1, 75, kNow);
  EXPECT_TRUE(plan.must_tell_to_leave());
  EXPECT_FALSE(plan.outcome());
  plan.ended(0, 75, kNow);
  // Killed while it left: it is not started again.
  plan.ended(2, 137, kNow);
  EXPECT_FALSE(plan.must_tell_to_leave());
  EXPECT_THAT(plan.due(kNow + kNow), IsEmpty());
  ASSERT_TRUE(plan.outcome());
  EXPECT_TRUE(plan.outcome()->requeue);
}

TEST(SlurmPlan, OneThatDiedOfTheNoticeHasLeft) {
  SlurmPlan plan = running(1);
  plan.ended(0, 128 + 15, kNow);
  ASSERT_TRUE(plan.outcome());
  EXPECT_TRUE(plan.outcome()->requeue);
}

TEST(SlurmPlan, ARunThatIsDoneOrStoppedIsNotRequeued) {
  for (const int code : {0, 10}) {
    SlurmPlan plan = running(2);
    plan.ended(0, 75, kNow);
    plan.ended(1, code, kNow);
    ASSERT_TRUE(plan.outcome());
    EXPECT_FALSE(plan.outcome()->requeue) << code;
    EXPECT_EQ(plan.outcome()->exit_code, code);
  }
}

TEST(SlurmPlan, OneThatWasKilledIsStartedAgainWithGrowingPausesAndNotForEver) {
  SlurmPlan plan = running(2);
  Nanoseconds now = kNow;
  for (const int64_t pause_ms : {250, 500, 1000, 2000, 4000}) {
    plan.ended(1, 137, now);
    EXPECT_THAT(plan.due(now), IsEmpty());
    ASSERT_EQ(plan.next_due(), now + Milliseconds(pause_ms));
    now += Milliseconds(pause_ms);
    EXPECT_THAT(plan.due(now), ElementsAre(1));
    plan.started(1, now);
  }
  plan.ended(1, 137, now);
  EXPECT_FALSE(plan.next_due());
  plan.ended(0, 6, now);
  EXPECT_TRUE(plan.next_due()) << "the other machine has its own count";
}

TEST(SlurmPlan, AGoodWhileOfLifeForgivesWhatWasBefore) {
  SlurmPlan plan = running(1);
  Nanoseconds now = kNow;
  for (int i = 0; i < 20; ++i) {
    now += std::chrono::seconds(60);
    plan.ended(0, -9, now);
    ASSERT_EQ(plan.next_due(), now + Milliseconds(250));
    plan.started(0, now);
  }
}

TEST(SlurmPlan, WhatNoOtherTryWouldChangeIsTheEnd) {
  for (const int code : {2, 3, 4, 5, 8, 130}) {
    SlurmPlan plan = running(1);
    plan.ended(0, code, kNow);
    ASSERT_TRUE(plan.outcome()) << code;
    EXPECT_FALSE(plan.outcome()->requeue);
    EXPECT_EQ(plan.outcome()->exit_code, code);
  }
}

// `tern program` has tried it four times, and the exit code is its own.
TEST(SlurmPlan, WhatAProgramEndsWithIsTheEnd) {
  for (const int code : {1, 5, 6, 12, 98, 137, 140, 143}) {
    SlurmPlan plan(1, /*restarts=*/1, SlurmPlan::Command::program);
    plan.started(0, kNow);
    plan.ended(0, code, kNow);
    ASSERT_TRUE(plan.outcome()) << code;
    EXPECT_FALSE(plan.outcome()->requeue);
    EXPECT_EQ(plan.outcome()->exit_code, code);
  }
}

TEST(SlurmPlan, AProgramThatLeavesIsRequeuedAndOneWhoseSupervisorWasKilledIsStartedAgain) {
  for (const int code : {75, -15}) {
    SlurmPlan plan(1, 0, SlurmPlan::Command::program);
    plan.started(0, kNow);
    plan.ended(0, code, kNow);
    ASSERT_TRUE(plan.outcome()) << code;
    EXPECT_TRUE(plan.outcome()->requeue);
  }
  SlurmPlan plan(1, 0, SlurmPlan::Command::program);
  plan.started(0, kNow);
  plan.ended(0, -9, kNow);
  EXPECT_TRUE(plan.next_due());
  plan.started(0, kNow);
  plan.ended(0, kSlurmPortTaken, kNow);
  EXPECT_THAT(plan.due(kNow), ElementsAre(0));
}

TEST(SlurmPlan, ARequeuedJobWaitsForItsOwnPast) {
  SlurmPlan plan = running(1, /*restarts=*/1);
  plan.ended(0, 5, kNow);
  EXPECT_TRUE(plan.next_due());
}

TEST(SlurmPlan, AfterSlurmHasTakenTheJobNothingIsStartedAndNothingRequeued) {
  SlurmPlan plan = running(2);
  plan.ended(0, 137, kNow);
  plan.taken();
  EXPECT_THAT(plan.due(kNow + kNow), IsEmpty());
  plan.ended(1, 75, kNow);
  EXPECT_FALSE(plan.must_tell_to_leave());
  ASSERT_TRUE(plan.outcome());
  EXPECT_FALSE(plan.outcome()->requeue);
  EXPECT_EQ(plan.outcome()->exit_code, 75);
}

TEST(SlurmPlan, ATakenPortMovesAllMachinesToOthers) {
  SlurmPlan plan = running(2);
  plan.ended(0, kSlurmPortTaken, kNow);
  EXPECT_TRUE(plan.must_tell_to_leave());
  EXPECT_THAT(plan.due(kNow), IsEmpty());
  plan.ended(1, 75, kNow);
  EXPECT_EQ(plan.attempt(), 1);
  EXPECT_THAT(plan.due(kNow), ElementsAre(0, 1));
  EXPECT_FALSE(plan.outcome());
  for (int i = 0; i < 20 && !plan.outcome(); ++i) {
    plan.started(0, kNow);
    plan.started(1, kNow);
    plan.ended(1, kSlurmPortTaken, kNow);
    plan.ended(0, 75, kNow);
  }
  EXPECT_EQ(plan.attempt(), 10) << "not for ever";
}

}  // namespace
}  // namespace tern
