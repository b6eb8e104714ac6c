#include "report/program_text.h"

#include <fmt/format.h>

#include "core/progress.h"
#include "report/screen.h"

namespace tern {
namespace {

constexpr size_t kProcessesShown = 12;
constexpr size_t kWarningsShown = 4;
constexpr size_t kHostColumns = 24;
constexpr size_t kEndedColumns = 50;

std::string ranks_text(const RunReport& report) {
  if (!report.ranks) return "";
  std::string text = fmt::format("{}, started {} time{}", format_count(report.ranks->world),
                                 format_count(report.ranks->generations),
                                 report.ranks->generations == 1 ? "" : "s");
  if (report.ranks->lost > 0) {
    text += fmt::format("; {} lost, at most {:.2f} s until all were started again",
                        format_count(report.ranks->lost), report.ranks->longest_gap_s);
  }
  return text;
}

std::string checkpoints_text(const RunReport& report) {
  if (report.checkpoints == 0) return "none: nothing was saved in $TERN_CHECKPOINT_DIR";
  return fmt::format("{} kept, the newest of {}", format_count(report.checkpoints),
                     format_bytes(report.checkpoint_bytes));
}

// Those in which the first rank ran, one after another.
void add_processes(Screen& screen, const std::vector<ProcessLine>& processes) {
  if (processes.size() < 2) return;
  screen.blank();
  const size_t first = processes.size() > kProcessesShown ? processes.size() - kProcessesShown : 0;
  const std::string which =
      first == 0 ? "rank 0" : fmt::format("the last {} of {}", kProcessesShown, processes.size());
  screen.line(fmt::format("{:>4}  {:<{}}  {:>11}  {}", "", which, kHostColumns, "time", "ended"));
  for (size_t i = first; i < processes.size(); ++i) {
    const ProcessLine& process = processes[i];
    const std::string who =
        fmt::format("{} pid {}", cut(process.host, kHostColumns - 11), process.pid);
    screen.line(fmt::format("{:>4}  {:<{}}  {:>11}  {}", i + 1, cut(who, kHostColumns),
                            kHostColumns, format_seconds(process.wall_seconds),
                            cut(process.ended, kEndedColumns)));
  }
}

}  // namespace

std::string format_program_report(const RunReport& report) {
  Screen screen;
  screen.line(fmt::format("run {}: {}", report.run, status_name(report.status)));
  screen.row(report.status == RunStatus::running ? "now" : "ended", report.reason, 3);
  screen.row("next", report.next_step, 2);
  screen.blank();
  screen.row("program", report.command, 2);
  screen.row("ranks", ranks_text(report));
  screen.row("interruptions",
             report.interruptions == 0 ? "none" : format_count(report.interruptions));
  screen.row("checkpoints", checkpoints_text(report));
  screen.row("wall time", format_seconds(report.wall_seconds));
  if (report.cost_microusd) {
    screen.row("cost", fmt::format("${:.4f}", static_cast<double>(*report.cost_microusd) / 1e6));
  }
  add_processes(screen, report.processes);
  const size_t count = report.warnings.size();
  const size_t first = count > kWarningsShown ? count - kWarningsShown : 0;
  for (size_t i = first; i < count; ++i) screen.row("warning", report.warnings[i]);
  return screen.take();
}

}  // namespace tern
