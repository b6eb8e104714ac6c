#include "report/time_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/progress.h"

namespace tern {

namespace {

// A mark is 5 %; the stages of a wait then fit behind the longest bar.
constexpr double kBarColumns = 20;
// Less than this share of the wall time is what clocks and rounding leave over, not lost records.
constexpr double kUntoldShare = 0.01;

void add_bar(Screen& screen, std::string_view label, double seconds, double wall,
             std::string_view remark = "") {
  if (seconds <= 0 || wall <= 0) return;
  const double share = std::min(1.0, seconds / wall);
  const auto marks = static_cast<size_t>(std::llround(share * kBarColumns));
  std::string text = fmt::format("{:<{}}{:>11} {:>5.1f} %  {}", label, kLabelColumns,
                                 brief_seconds(seconds), share * 100.0, std::string(marks, '#'));
  if (!remark.empty()) text += fmt::format("{}{}", marks > 0 ? " " : "", remark);
  text.erase(text.find_last_not_of(' ') + 1);
  screen.line(text);
}

// "fetch 41, decode 12, queue 2 %": the stages of the wait by size, in shares of the wall time.
std::string wait_stages(const SpanSeconds& seconds, double wall) {
  std::array<Span, 4> stages = {Span::fetch, Span::decode, Span::augment, Span::queue};
  std::stable_sort(stages.begin(), stages.end(),
                   [&](Span a, Span b) { return seconds[a] > seconds[b]; });
  std::string text;
  for (const Span stage : stages) {
    const double percent = 100.0 * seconds[stage] / wall;
    if (percent < 0.05) continue;
    text += fmt::format("{}{} {:.{}f}", text.empty() ? "" : ", ", span_name(stage), percent,
                        percent < 0.95 ? 1 : 0);
  }
  return text.empty() ? text : text + " %";
}

}  // namespace

std::string brief_seconds(double seconds) {
  return seconds < 9.95 ? fmt::format("{:.1f} s", std::max(0.0, seconds)) : format_seconds(seconds);
}

void add_time_rows(Screen& screen, const RunReport& report) {
  const SpanSeconds& seconds = report.seconds;
  const double told = seconds.total();
  const double wall = std::max(report.wall_seconds, told);
  screen.line(fmt::format("{:<{}}{:>11}", "wall time", kLabelColumns, brief_seconds(wall)));
  add_bar(screen, "  start", seconds[Span::start], wall);
  add_bar(screen, "  data wait", seconds.data_wait(), wall, wait_stages(seconds, wall));
  add_bar(screen, "  copy", seconds[Span::copy], wall);
  add_bar(screen, "  compute", seconds[Span::compute], wall);
  add_bar(screen, "  communication", seconds[Span::communication], wall);
  add_bar(screen, "  checkpoint", seconds[Span::checkpoint], wall);
  add_bar(screen, "  evaluation", seconds[Span::evaluation], wall);
  add_bar(screen, "  other", seconds[Span::other], wall);
  const double untold = wall - told;
  if (untold > kUntoldShare * wall) {
    add_bar(screen, "  not told", untold, wall, "the records do not say where it went");
  }
}

}  // namespace tern
