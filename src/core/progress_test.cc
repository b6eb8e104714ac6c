#include "core/progress.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/test_terminal.h"

namespace tern {
namespace {

using std::chrono::seconds;

// A log whose stream is a file nobody reads; its lines are kept, without their times.
class ProgressTest : public testing::Test {
 protected:
  ProgressTest() : stream_(std::tmpfile()), log_(clock_, Level::info, stream_) {
    log_.add_sink([this](std::string_view line) { lines_.emplace_back(line.substr(25)); });
  }
  ~ProgressTest() override { std::fclose(stream_); }

  SimClock clock_;
  std::FILE* stream_;
  Log log_;
  std::vector<std::string> lines_;
};

TEST_F(ProgressTest, ALineHasShareRateAndTimeLeft) {
  Progress progress(log_, clock_, {.what = "train", .unit = "samples", .total = 60'000});
  clock_.advance(seconds(4));
  EXPECT_EQ(progress.render(22'400, "loss 0.31"),
            "train  37 %  22,400 of 60,000 samples  5,600 samples/s  7 s left  loss 0.31");
}

TEST_F(ProgressTest, WhatWasDoneBeforeIsNoPartOfTheRate) {
  Progress progress(log_, clock_, {.what = "train", .unit = "steps", .total = 2000, .start = 1000});
  clock_.advance(seconds(10));
  EXPECT_EQ(progress.render(1100, ""),
            "train  55 %  1,100 of 2,000 steps  10.0 steps/s  1 min 30 s left");
}

TEST_F(ProgressTest, WithoutATotalThereIsNoTimeLeft) {
  Progress progress(log_, clock_, {.what = "import", .unit = "files"});
  clock_.advance(seconds(100));
  EXPECT_EQ(progress.render(250, ""), "import  250 files  2.50 files/s");
}

TEST_F(ProgressTest, BytesAreShownInLargerUnits) {
  Progress progress(log_, clock_, {.what = "fetch", .unit = "bytes", .total = 2'000'000'000});
  clock_.advance(seconds(2));
  EXPECT_EQ(progress.render(500'000'000, ""),
            "fetch  25 %  500.0 MB of 2.0 GB  250.0 MB/s  6 s left");
}

TEST_F(ProgressTest, NothingIsDividedByZero) {
  Progress progress(log_, clock_, {.what = "train", .unit = "steps", .total = 10, .start = 3});
  EXPECT_EQ(progress.render(3, ""), "train  30 %  3 of 10 steps") << "no time has passed";
  EXPECT_EQ(progress.render(5, ""), "train  50 %  5 of 10 steps") << "no time has passed";
  clock_.advance(seconds(1));
  EXPECT_EQ(progress.render(3, ""), "train  30 %  3 of 10 steps") << "nothing was done";
  EXPECT_EQ(progress.render(2, ""), "train  20 %  2 of 10 steps") << "less than nothing";
  EXPECT_EQ(progress.render(10, ""), "train  100 %  10 of 10 steps  7.00 steps/s");
}

TEST_F(ProgressTest, AllButOneIsNotAHundredPercent) {
  Progress progress(log_, clock_, {.what = "a", .unit = "b", .total = 1000});
  EXPECT_EQ(progress.render(999, ""), "a  99 %  999 of 1,000 b");
}

TEST_F(ProgressTest, APlainLineComesEveryNowAndThen) {
  Progress progress(log_, clock_, {.what = "train", .unit = "steps", .total = 100});
  progress.update(1);
  clock_.advance(Milliseconds(9'999));
  progress.update(2);
  EXPECT_TRUE(lines_.empty());
  clock_.advance(Milliseconds(1));
  progress.update(10, "loss 1");
  progress.update(11, "loss 2");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0],
            "info  train: 10 %  10 of 100 steps  1.00 steps/s  1 min 30 s left  loss 1\n");
  clock_.advance(seconds(10));
  progress.update(20);
  progress.finish();
  EXPECT_EQ(lines_.size(), 2u);
}

TEST(Progress, OnATerminalTheLineIsRewrittenAndRemoved) {
  TestTerminal terminal(100);
  if (!terminal.is_open()) GTEST_SKIP() << "no pseudo-terminals here: is /dev/pts mounted?";
  SimClock clock;
  Log log(clock, Level::info, terminal.file());
  int log_lines = 0;
  log.add_sink([&log_lines](std::string_view) { ++log_lines; });
  {
    Progress progress(log, clock, {.what = "train", .unit = "steps", .total = 100});
    progress.update(1);  // nothing is due yet
    clock.advance(Milliseconds(200));
    progress.update(2);
    progress.update(3);
    EXPECT_EQ(terminal.take(), "\r\x1b[Ktrain  2 %  2 of 100 steps  10.0 steps/s  10 s left");
    clock.advance(Milliseconds(200));
    progress.update(4);
    EXPECT_EQ(terminal.take(), "\r\x1b[Ktrain  4 %  4 of 100 steps  10.0 steps/s  10 s left");
  }
  EXPECT_EQ(terminal.take(), "\r\x1b[K");
  EXPECT_EQ(log_lines, 0);
}

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(12'800), "12,800");
  EXPECT_EQ(format_count(1'234'567), "1,234,567");
  EXPECT_EQ(format_count(-100), "-100");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(format_count(0, "object"), "0 objects");
  EXPECT_EQ(format_count(1, "object"), "1 object");
  EXPECT_EQ(format_count(1000, "object"), "1,000 objects");
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 kB");
  EXPECT_EQ(format_bytes(31'240'000), "31.2 MB");
  EXPECT_EQ(format_bytes(999'949), "999.9 kB");
  EXPECT_EQ(format_bytes(999'950), "1.0 MB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "9.2 EB");
}

TEST(FormatSeconds, ShowsTheTwoLargestUnits) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(-3), "0 s");
  EXPECT_EQ(format_seconds(11.4), "11 s");
  EXPECT_EQ(format_seconds(59.6), "1 min 00 s");
  EXPECT_EQ(format_seconds(125), "2 min 05 s");
  EXPECT_EQ(format_seconds(3599.7), "1 h 00 min");
  EXPECT_EQ(format_seconds(77 * 60), "1 h 17 min");
  EXPECT_EQ(format_seconds(48 * 3600 - 1), "2 d 00 h");
  EXPECT_EQ(format_seconds(76 * 3600), "3 d 04 h");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "over 100 years");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::quiet_NaN()), "over 100 years");
}

}  // namespace
}  // namespace tern
