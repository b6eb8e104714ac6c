#include "loader/data_wait.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/random.h"

namespace tern {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Ns = Nanoseconds;

TEST(SplitWait, WhatNoThreadWasBusyWithIsQueue) {
  EXPECT_EQ(split_wait(Ns(0), {}), DataWait());
  EXPECT_EQ(split_wait(Ns(100), {}), (DataWait{.queue = Ns(100)}));
  EXPECT_EQ(split_wait(Ns(100), {Ns(50), Ns(7), Ns(20)}),
            (DataWait{.fetch = Ns(50), .decode = Ns(7), .augment = Ns(20), .queue = Ns(23)}));
  EXPECT_EQ(split_wait(Ns(77), {Ns(50), Ns(7), Ns(20)}),
            (DataWait{.fetch = Ns(50), .decode = Ns(7), .augment = Ns(20)}));
}

TEST(SplitWait, SeveralBusyThreadsAreScaledDownToTheWait) {
  EXPECT_EQ(split_wait(Ns(100), {Ns(300), Ns(0), Ns(100)}),
            (DataWait{.fetch = Ns(75), .augment = Ns(25)}));
  EXPECT_EQ(split_wait(Ns(10), {Ns(100), Ns(100), Ns(100)}),
            (DataWait{.fetch = Ns(3), .decode = Ns(3), .augment = Ns(4)}));
  EXPECT_EQ(split_wait(Ns(0), {Ns(5), Ns(5), Ns(5)}), DataWait());
  // A stage without any time gets none of what rounding leaves over.
  EXPECT_EQ(split_wait(Ns(10), {Ns(7), Ns(7), Ns(0)}), (DataWait{.fetch = Ns(5), .decode = Ns(5)}));
  EXPECT_EQ(split_wait(Ns(11), {Ns(0), Ns(12), Ns(0)}), (DataWait{.decode = Ns(11)}));
  // 256 threads, each busy for a whole day.
  EXPECT_EQ(split_wait(hours(24), {hours(128 * 24), Ns(0), hours(128 * 24)}),
            (DataWait{.fetch = hours(12), .augment = hours(12)}));
}

TEST(SplitWait, PartsAddUpExactlyAndAreInProportion) {
  Random random(1, Stream::order, 0);
  for (int round = 0; round < 100'000; ++round) {
    const Ns wait(random.next() >> random.below(32));
    StageTimes busy;
    for (Ns& time : busy) time = Ns(random.next() >> random.below(32));
    const DataWait split = split_wait(wait, busy);
    ASSERT_EQ(split.total(), wait);
    const Ns all_busy = busy[0] + busy[1] + busy[2];
    if (all_busy <= wait) {
      ASSERT_EQ(split, (DataWait{busy[0], busy[1], busy[2], wait - all_busy}));
      continue;
    }
    ASSERT_EQ(split.queue, Ns(0));
    const auto expected = [&](Ns time) {
      return static_cast<double>(time.count()) * static_cast<double>(wait.count()) /
             static_cast<double>(all_busy.count());
    };
    ASSERT_NEAR(static_cast<double>(split.fetch.count()), expected(busy[0]), 1.01);
    ASSERT_NEAR(static_cast<double>(split.decode.count()), expected(busy[1]), 1.01);
    ASSERT_NEAR(static_cast<double>(split.augment.count()), expected(busy[2]), 1.01);
    ASSERT_GE(split.fetch, Ns(0));
    ASSERT_GE(split.decode, Ns(0));
    ASSERT_GE(split.augment, Ns(0));
  }
}

class StageMeterTest : public testing::Test {
 protected:
  SimClock clock_;
  std::atomic<Nanoseconds> waited_since_ = kNobodyWaits;
};

TEST_F(StageMeterTest, NeedsNoClockWhileNobodyWaits) {
  StageMeter meter(nullptr, waited_since_);
  meter.end(LoadStage::fetch);
  EXPECT_EQ(meter.times(), StageTimes{});
  EXPECT_EQ(meter.waited_since(), kNobodyWaits);
}

TEST_F(StageMeterTest, StageThatBeganBeforeTheWaitCountsFromTheWaitsBeginning) {
  StageMeter meter(&clock_, waited_since_);
  clock_.advance(milliseconds(1));
  meter.end(LoadStage::fetch);
  clock_.advance(milliseconds(2));
  waited_since_ = clock_.now();
  clock_.advance(milliseconds(4));
  meter.end(LoadStage::decode);
  clock_.advance(milliseconds(8));
  meter.end(LoadStage::augment);
  clock_.advance(milliseconds(16));
  meter.end(LoadStage::fetch);
  EXPECT_EQ(meter.times(), (StageTimes{milliseconds(16), milliseconds(4), milliseconds(8)}));
  EXPECT_EQ(meter.waited_since(), milliseconds(3));
}

TEST_F(StageMeterTest, WorkTakenUpDuringTheWaitCountsFromItsOwnBeginning) {
  waited_since_ = clock_.now();
  clock_.advance(milliseconds(5));
  StageMeter meter(&clock_, waited_since_);
  clock_.advance(milliseconds(2));
  meter.end(LoadStage::fetch);
  EXPECT_EQ(meter.times(), (StageTimes{milliseconds(2)}));
}

TEST_F(StageMeterTest, TimesOfAWaitThatEndedAreForgottenInTheNext) {
  waited_since_ = clock_.now();
  StageMeter meter(&clock_, waited_since_);
  clock_.advance(milliseconds(1));
  meter.end(LoadStage::fetch);
  waited_since_ = kNobodyWaits;
  clock_.advance(milliseconds(2));
  meter.end(LoadStage::augment);
  EXPECT_EQ(meter.times(), (StageTimes{milliseconds(1)}));
  clock_.advance(milliseconds(4));
  waited_since_ = clock_.now();
  clock_.advance(milliseconds(8));
  meter.end(LoadStage::augment);
  EXPECT_EQ(meter.times(), (StageTimes{Ns(0), Ns(0), milliseconds(8)}));
  EXPECT_EQ(meter.waited_since(), milliseconds(7));
}

}  // namespace
}  // namespace tern
