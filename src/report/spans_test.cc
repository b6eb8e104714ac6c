#include "report/spans.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tern {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SpanTimes times(std::initializer_list<std::pair<Span, Nanoseconds>> given) {
  SpanTimes result;
  for (const auto& [span, time] : given) result[span] = time;
  return result;
}

TEST(Spans, HaveTheNamesThatFilesHave) {
  std::string names;
  for (const Span span : kAllSpans) names += std::string(span_name(span)) + " ";
  EXPECT_EQ(names,
            "start fetch decode augment queue copy compute checkpoint evaluation other "
            "communication ");
  EXPECT_EQ(std::set<Span>(kAllSpans.begin(), kAllSpans.end()).size(), kSpans);
}

TEST(SpanSecondsTest, DataWaitIsItsFourStages) {
  SpanSeconds spans;
  for (const Span span : kAllSpans) spans[span] = static_cast<double>(1 << static_cast<int>(span));
  EXPECT_EQ(spans.data_wait(), 2 + 4 + 8 + 16);
  EXPECT_EQ(spans.total(), 2047);
  spans += spans;
  EXPECT_EQ(spans[Span::other], 1024);
}

class SpanMeterTest : public testing::Test {
 protected:
  void pass(Nanoseconds time) { clock_.advance(time); }

  SimClock clock_;
};

TEST_F(SpanMeterTest, WhatTheProcessHasLivedAlreadyIsStart) {
  SpanMeter meter(clock_, milliseconds(700));
  pass(milliseconds(300));
  EXPECT_EQ(meter.running(), Span::start);
  EXPECT_EQ(meter.totals()[Span::start], seconds(1));
  EXPECT_EQ(SpanMeter(clock_, seconds(-5)).totals().total(), Nanoseconds(0));
}

TEST_F(SpanMeterTest, EveryNanosecondIsInExactlyOneSpan) {
  SpanMeter meter(clock_, Nanoseconds(0));
  Nanoseconds passed{0};
  SpanTimes expected;
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds time(i * 7919 + 1);
    expected[meter.running()] += time;
    pass(time);
    passed += time;
    meter.enter(kAllSpans[static_cast<size_t>(i * 7) % kSpans]);
    if (i % 13 == 0) meter.take();
  }
  EXPECT_EQ(meter.totals().times, expected.times);
  EXPECT_EQ(meter.totals().total(), passed);
}

TEST_F(SpanMeterTest, ATakeHoldsTheRunningSpansPartAndTheNextTakeTheRest) {
  SpanMeter meter(clock_, Nanoseconds(0));
  meter.enter(Span::compute);
  pass(seconds(2));
  EXPECT_EQ(meter.take()[Span::compute], seconds(2));
  pass(seconds(3));
  const SpanTimes second = meter.take();
  EXPECT_EQ(second[Span::compute], seconds(3));
  EXPECT_EQ(second.total(), seconds(3));
  EXPECT_EQ(meter.running(), Span::compute);
  EXPECT_EQ(meter.totals()[Span::compute], seconds(5));
  EXPECT_EQ(meter.take().total(), Nanoseconds(0));
}

TEST_F(SpanMeterTest, ReassignedTimeKeepsTheTotal) {
  SpanMeter meter(clock_, Nanoseconds(0));
  meter.enter(Span::queue);
  pass(seconds(4));
  meter.enter(Span::compute);
  meter.reassign(Span::queue, Span::fetch, seconds(3));
  meter.reassign(Span::queue, Span::decode, seconds(-1));  // a wrong measure moves nothing
  const SpanTimes step = meter.take();
  EXPECT_EQ(step[Span::fetch], seconds(3));
  EXPECT_EQ(step[Span::queue], seconds(1));
  EXPECT_EQ(step[Span::decode], seconds(0));
  EXPECT_EQ(step.total(), seconds(4));
}

TEST_F(SpanMeterTest, NoMoreIsReassignedThanTheSpanHadSinceTheTake) {
  SpanMeter meter(clock_, Nanoseconds(0));
  meter.enter(Span::queue);
  pass(seconds(10));
  meter.take();
  pass(seconds(2));
  meter.reassign(Span::queue, Span::fetch, seconds(50));  // while it runs
  const SpanTimes step = meter.take();
  EXPECT_EQ(step[Span::fetch], seconds(2));
  EXPECT_EQ(step[Span::queue], seconds(0));
  EXPECT_EQ(meter.totals()[Span::queue], seconds(10));
}

TEST_F(SpanMeterTest, AJumpOfTheCalendarIsNotTimeThatPassed) {
  SpanMeter meter(clock_, Nanoseconds(0));
  clock_.jump_calendar(std::chrono::hours(24));
  EXPECT_EQ(meter.totals().total(), Nanoseconds(0));
}

TEST(AsSeenByDevice, LaunchingIsNotComputing) {
  const SpanTimes host = times({{Span::compute, seconds(10)}, {Span::other, seconds(1)}});
  const SpanTimes seen = as_seen_by_device(host, seconds(4));
  EXPECT_EQ(seen[Span::compute], seconds(4));
  EXPECT_EQ(seen[Span::other], seconds(7));
  EXPECT_EQ(seen.total(), host.total());
}

TEST(AsSeenByDevice, WhatTheHostDidWhileTheDeviceComputedCostNothing) {
  const SpanTimes host = times({{Span::compute, seconds(2)},
                                {Span::fetch, seconds(6)},
                                {Span::copy, seconds(2)},
                                {Span::checkpoint, seconds(5)}});
  const SpanTimes seen = as_seen_by_device(host, seconds(6));
  EXPECT_EQ(seen[Span::compute], seconds(6));
  EXPECT_EQ(seen[Span::fetch], seconds(3));
  EXPECT_EQ(seen[Span::copy], seconds(1));
  EXPECT_EQ(seen[Span::checkpoint], seconds(5));  // the device stood still meanwhile
  EXPECT_EQ(seen.total(), host.total());
}

TEST(AsSeenByDevice, NoMoreIsComputedThanTimePassed) {
  const SpanTimes host = times({{Span::compute, seconds(2)}, {Span::queue, seconds(1)}});
  const SpanTimes seen = as_seen_by_device(host, seconds(100));
  EXPECT_EQ(seen[Span::compute], seconds(3));
  EXPECT_EQ(seen[Span::queue], seconds(0));
  const SpanTimes alone = as_seen_by_device(times({{Span::compute, seconds(2)}}), seconds(100));
  EXPECT_EQ(alone[Span::compute], seconds(2));
}

TEST(AsSeenByDevice, KeepsTheTotalToTheNanosecondAndNothingIsNegative) {
  for (int64_t computed = -3; computed < 60; ++computed) {
    for (int64_t unit = 1; unit < 10; ++unit) {
      SpanTimes host;
      for (const Span span : kAllSpans) host[span] = Nanoseconds(unit);
      const SpanTimes seen = as_seen_by_device(host, Nanoseconds(computed));
      EXPECT_EQ(seen.total(), host.total());
      for (const Nanoseconds time : seen.times) EXPECT_GE(time.count(), 0);
    }
  }
}

}  // namespace
}  // namespace tern
