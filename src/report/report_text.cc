#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/progress.h"
#include "report/run_report.h"

namespace tern {

namespace {

// The screen: 30 lines of 100 columns. The limits below add up to it.
constexpr size_t kColumns = 100;
constexpr size_t kLabelColumns = 15;
constexpr size_t kReasonLines = 3;
constexpr size_t kNextLines = 2;
constexpr size_t kProcesses = 5;
constexpr size_t kWarnings = 3;
constexpr size_t kHostColumns = 20;
constexpr size_t kEndedColumns = 34;

// Code points, near enough to columns for the names and messages we print.
size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

std::string cut(std::string_view text, size_t width) {
  if (columns(text) <= width) return std::string(text);
  return fmt::format("{:.{}}...", text, width - 3);
}

// Messages of others may hold newlines, and bytes that move a terminal's cursor.
std::string one_line(std::string_view text) {
  std::string line;
  for (char byte : text) {
    const bool is_control = static_cast<unsigned char>(byte) < 0x20U || byte == 0x7F;
    line += is_control ? ' ' : byte;
  }
  return line;
}

// Breaks at spaces. What does not fit in `lines_max` lines ends in "...".
std::vector<std::string> wrap(std::string_view text, size_t width, size_t lines_max) {
  const std::string flat = one_line(text);
  std::vector<std::string> lines;
  std::string line;
  size_t at = 0;
  while (at < flat.size()) {
    const size_t space = std::min(flat.find(' ', at), flat.size());
    const std::string word = cut(std::string_view(flat).substr(at, space - at), width);
    at = space + 1;
    if (word.empty()) continue;
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      if (lines.size() + 1 == lines_max) {
        lines.push_back(cut(line + " " + word + " ...", width));
        return lines;
      }
      lines.push_back(std::move(line));
      line.clear();
    }
    line += line.empty() ? word : " " + word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

// Collects "label   value" rows.
class Screen {
 public:
  void line(std::string_view text) { text_ += cut(one_line(text), kColumns) + "\n"; }
  void blank() { text_ += "\n"; }

  // Nothing is shown for an empty value.
  void row(std::string_view label, std::string_view value, size_t lines_max = 1) {
    for (const std::string& part : wrap(value, kColumns - kLabelColumns, lines_max)) {
      line(fmt::format("{:<{}}{}", label, kLabelColumns, part));
      label = "";
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string percent(double share) { return fmt::format("{:.2f} %", share * 100.0); }

std::string accuracy_text(const RunReport& report) {
  if (!report.last_evaluation) return "not evaluated yet";
  const EvaluationLine& last = *report.last_evaluation;
  std::string text = "top-1 " + percent(last.top1);
  if (std::isfinite(last.top5)) text += ", top-5 " + percent(last.top5);
  text += fmt::format(" after epoch {}", last.epoch);
  if (const auto& best = report.best_evaluation; best && best->top1 > last.top1) {
    text += fmt::format("; best {} after epoch {}", percent(best->top1), best->epoch);
  }
  return text;
}

std::string loss_text(const RunReport& report) {
  std::string text;
  if (report.train_loss) text = fmt::format("{:.4f} in training", *report.train_loss);
  if (report.last_evaluation && std::isfinite(report.last_evaluation->loss)) {
    text += text.empty() ? "" : ", ";
    text += fmt::format("{:.4f} on the test data", report.last_evaluation->loss);
  }
  return text;
}

std::string progress_text(const RunReport& report) {
  std::string text = "step " + format_count(report.step);
  if (report.total_steps > 0) text += " of " + format_count(report.total_steps);
  if (report.epochs > 0) {
    text += fmt::format(", {} of {} epochs", format_count(report.epochs_done),
                        format_count(report.epochs));
  }
  return text;
}

std::string throughput_text(const RunReport& report) {
  const double rate = report.samples_per_second;
  const std::string shown =
      rate < 100 ? fmt::format("{:.1f}", rate) : format_count(std::llround(rate));
  return fmt::format("{} samples/s over {} samples", shown, format_count(report.samples));
}

std::string interruptions_text(const RunReport& report) {
  if (report.interruptions == 0 && report.steps_lost == 0) return "none";
  const std::string lost = fmt::format("{} step{} lost", format_count(report.steps_lost),
                                       report.steps_lost == 1 ? "" : "s");
  if (report.interruptions > 0) {
    return fmt::format("{}, {}", format_count(report.interruptions), lost);
  }
  return fmt::format("none, but {} to a save that failed or a checkpoint that was damaged", lost);
}

std::string checkpoints_text(const RunReport& report) {
  if (report.checkpoints == 0) return "none yet";
  std::string text = format_count(report.checkpoints) + " published";
  if (report.checkpoint_bytes > 0) {
    text += ", the newest of " + format_bytes(report.checkpoint_bytes);
  }
  return text;
}

std::string cost_text(const RunReport& report) {
  if (!report.cost_microusd) return "";
  return fmt::format("${:.4f}", static_cast<double>(*report.cost_microusd) / 1e6);
}

void add_processes(Screen& screen, const std::vector<ProcessLine>& processes) {
  if (processes.size() < 2) return;  // the rows above have said it all
  screen.blank();
  const size_t first = processes.size() > kProcesses ? processes.size() - kProcesses : 0;
  screen.line(fmt::format("{:>4}  {:<{}}  {:>21}  {:>11}  {}", "", "process", kHostColumns, "steps",
                          "time", "ended"));
  for (size_t i = first; i < processes.size(); ++i) {
    const ProcessLine& process = processes[i];
    const std::string who =
        fmt::format("{} pid {}", cut(process.host, kHostColumns - 11), process.pid);
    const std::string steps =
        fmt::format("{} to {}", format_count(process.first_step), format_count(process.last_step));
    screen.line(fmt::format("{:>4}  {:<{}}  {:>21}  {:>11}  {}", i + 1, cut(who, kHostColumns),
                            kHostColumns, steps, format_seconds(process.wall_seconds),
                            cut(process.ended, kEndedColumns)));
  }
  if (first > 0)
    screen.line(
        fmt::format("      and {} before these", format_count(static_cast<int64_t>(first))));
}

// The newest, because a run that goes wrong says most at its end.
void add_warnings(Screen& screen, const std::vector<std::string>& warnings) {
  if (warnings.empty()) return;
  const size_t first = warnings.size() > kWarnings ? warnings.size() - kWarnings : 0;
  screen.blank();
  for (size_t i = first; i < warnings.size(); ++i) screen.row("warning", warnings[i]);
  if (first > 0) {
    screen.line(fmt::format("{:<{}}and {} before these, in the ledger", "", kLabelColumns,
                            format_count(static_cast<int64_t>(first))));
  }
}

}  // namespace

std::string format_report(const RunReport& report) {
  Screen screen;
  screen.line(fmt::format("run {}: {}", report.run, status_name(report.status)));
  screen.row(report.status == RunStatus::running ? "now" : "ended", report.reason, kReasonLines);
  screen.row("next", report.next_step, kNextLines);
  screen.blank();
  screen.row("recipe", report.recipe);
  screen.row("progress", progress_text(report));
  screen.row("accuracy", accuracy_text(report));
  screen.row("loss", loss_text(report));
  screen.row("throughput", throughput_text(report));
  screen.row("wall time", format_seconds(report.wall_seconds));
  screen.row("interruptions", interruptions_text(report));
  screen.row("checkpoints", checkpoints_text(report));
  screen.row("cost", cost_text(report));
  add_processes(screen, report.processes);
  add_warnings(screen, report.warnings);
  return screen.take();
}

}  // namespace tern
