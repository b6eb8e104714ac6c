#include "core/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace tern {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(SimClock, MovesOnlyWhenTold) {
  SimClock clock(1000);
  EXPECT_EQ(clock.now(), Nanoseconds(0));
  EXPECT_EQ(clock.unix_ms(), 1000);
  clock.advance(seconds(2));
  EXPECT_EQ(clock.now(), seconds(2));
  EXPECT_EQ(clock.unix_ms(), 3000);
}

TEST(SimClock, AJumpOfTheCalendarIsNoTimePassed) {
  SimClock clock(1000);
  clock.jump_calendar(Milliseconds(-500));
  EXPECT_EQ(clock.now(), Nanoseconds(0));
  EXPECT_EQ(clock.unix_ms(), 500);
}

TEST(SimClock, WaitingMovesItUnlessStopped) {
  SimClock clock;
  std::stop_source stop;
  EXPECT_TRUE(clock.wait_for(hours(1), stop.get_token()));
  EXPECT_EQ(clock.now(), hours(1));
  stop.request_stop();
  EXPECT_FALSE(clock.wait_for(hours(1), stop.get_token()));
  EXPECT_EQ(clock.now(), hours(1));
}

TEST(SystemClock, NeverGoesBack) {
  SystemClock clock;
  Nanoseconds last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SystemClock, KnowsTheCentury) {
  SystemClock clock;
  EXPECT_GT(clock.unix_ms(), 1'700'000'000'000);
  EXPECT_LT(clock.unix_ms(), 4'102'444'800'000);  // 2100
}

TEST(SystemClock, WaitsAtLeastTheDuration) {
  SystemClock clock;
  const Nanoseconds before = clock.now();
  EXPECT_TRUE(clock.wait_for(Milliseconds(2), std::stop_token()));
  EXPECT_GE(clock.now() - before, Milliseconds(2));
}

TEST(SystemClock, AStopEndsTheWait) {
  SystemClock clock;
  bool waited_whole = true;
  {
    // Leaving the scope requests the stop; an hour would be past the test's time limit.
    std::jthread waiter(
        [&](std::stop_token stop) { waited_whole = clock.wait_for(hours(1), stop); });
  }
  EXPECT_FALSE(waited_whole);
}

TEST(FormatUtc, WritesIso8601) {
  EXPECT_EQ(format_utc(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_utc(1'700'000'000'123), "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(format_utc(1'709'251'199'999), "2024-02-29T23:59:59.999Z");
  EXPECT_EQ(format_utc(-1), "1969-12-31T23:59:59.999Z");
}

TEST(ToSeconds, KeepsFractions) { EXPECT_DOUBLE_EQ(to_seconds(Milliseconds(1500)), 1.5); }

}  // namespace
}  // namespace tern
