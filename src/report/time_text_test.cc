#include "report/time_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string time_rows(const RunReport& report) {
  Screen screen;
  add_time_rows(screen, report);
  return screen.take();
}

RunReport hundred_seconds() {
  RunReport report;
  report.wall_seconds = 100;
  report.seconds[Span::start] = 3;
  report.seconds[Span::fetch] = 40.6;
  report.seconds[Span::queue] = 1.4;
  report.seconds[Span::compute] = 55;
  return report;
}

TEST(TimeText, IsABarForEachSpanThatTookTime) {
  EXPECT_EQ(time_rows(hundred_seconds()),
            "wall time       1 min 40 s\n"
            "  start              3.0 s   3.0 %  #\n"
            "  data wait           42 s  42.0 %  ######## fetch 41, queue 1 %\n"
            "  compute             55 s  55.0 %  ###########\n");
}

TEST(TimeText, SaysHowMuchTheRecordsDoNotTell) {
  RunReport report = hundred_seconds();
  report.wall_seconds = 200;
  EXPECT_THAT(time_rows(report), HasSubstr("  not told      1 min 40 s  50.0 %  ########## the "
                                           "records do not say where it went\n"));
  report.wall_seconds = 100.5;  // rounding
  EXPECT_THAT(time_rows(report), Not(HasSubstr("not told")));
}

TEST(TimeText, SpansBeyondTheWallTimeAreTheWallTime) {
  RunReport report = hundred_seconds();
  report.wall_seconds = 10;
  EXPECT_THAT(time_rows(report), HasSubstr("wall time       1 min 40 s\n"));
  EXPECT_THAT(time_rows(report), HasSubstr("  55.0 %"));
}

TEST(TimeText, NothingTookNoTime) { EXPECT_EQ(time_rows({}), "wall time            0.0 s\n"); }

TEST(TimeText, KeepsToItsRowsAndToTheScreen) {
  RunReport report;
  report.wall_seconds = 2000;
  for (double& seconds : report.seconds.values) seconds = 100;
  const std::string text = time_rows(report);
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(text, '\n')), kTimeRows);
  EXPECT_THAT(text, HasSubstr("fetch 5, decode 5, augment 5, queue 5 %\n"));

  for (const Span span : {Span::fetch, Span::decode, Span::augment, Span::queue}) {
    report.seconds = {};
    for (const Span stage : {Span::fetch, Span::decode, Span::augment, Span::queue}) {
      report.seconds[stage] = stage == span ? 62 : 12;
    }
    report.wall_seconds = 98;
    EXPECT_THAT(time_rows(report), HasSubstr(" 12 %\n"));  // the longest there can be, uncut
  }
}

}  // namespace
}  // namespace tern
