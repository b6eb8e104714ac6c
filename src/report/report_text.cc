#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "core/progress.h"
#include "report/learning_text.h"
#include "report/program_text.h"
#include "report/run_report.h"
#include "report/screen.h"
#include "report/time_text.h"

namespace tern {

namespace {

// The screen: 40 lines of 100 columns. These limits and a line for every other row add up to it.
struct Limits {
  size_t reason_lines = 3;
  size_t next_lines = 2;
  size_t machine_lines = 2;
  size_t verdict_lines = 3;
  size_t processes = 3;
};
constexpr size_t kWarnings = 2;
constexpr size_t kHostColumns = 20;
constexpr ptrdiff_t kHostsShown = 6;
constexpr size_t kEndedColumns = 34;

// Rows that only some runs have take their lines from those that can be shorter, the least missed
// first.
Limits limits_beside(size_t extra_rows) {
  Limits limits;
  for (int round = 0; round < 2; ++round) {
    for (size_t* limit : {&limits.machine_lines, &limits.processes, &limits.verdict_lines,
                          &limits.reason_lines, &limits.next_lines}) {
      if (extra_rows == 0) return limits;
      if (*limit == 1) continue;
      --*limit;
      --extra_rows;
    }
  }
  return limits;
}

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

std::string rate_text(double rate) {
  return (rate < 100 ? fmt::format("{:.1f}", rate) : format_count(std::llround(rate))) +
         " samples/s";
}

std::string throughput_text(const RunReport& report) {
  std::string text = fmt::format("{} over {} samples", rate_text(report.samples_per_second),
                                 format_count(report.samples));
  if (report.compute_samples_per_second) {
    text += fmt::format("; {} by compute alone", rate_text(*report.compute_samples_per_second));
  }
  return text;
}

// The machines that a run was led from, in order: "; on a, b, a". Empty if it was one all along.
std::string way_text(const std::vector<ProcessLine>& processes) {
  std::vector<std::string> hosts;
  for (const ProcessLine& process : processes) {
    if (process.host.empty() || (!hosts.empty() && hosts.back() == process.host)) continue;
    hosts.push_back(process.host);
  }
  if (hosts.size() < 2) return "";
  // Of a long way where it began and where it led to.
  if (std::ssize(hosts) > kHostsShown) {
    hosts.erase(hosts.begin() + 2, hosts.end() - (kHostsShown - 3));
    hosts.insert(hosts.begin() + 2, "...");
  }
  return fmt::format("; on {}", fmt::join(hosts, ", "));
}

std::string interruptions_text(const RunReport& report) {
  if (report.interruptions == 0 && report.steps_lost == 0) return "none";
  const std::string lost = fmt::format("{} step{} lost", format_count(report.steps_lost),
                                       report.steps_lost == 1 ? "" : "s");
  if (report.interruptions > 0) {
    return fmt::format("{}, {}{}", format_count(report.interruptions), lost,
                       way_text(report.processes));
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

// "2 cores of AMD EPYC 9R14, 24.0 GB, kernel 6.1.0, g5.xlarge; LibTorch 2.11.0 on cpu"
std::string machine_text(const RunReport& report) {
  std::vector<std::string> parts;
  if (report.machine) {
    const Machine& machine = *report.machine;
    const std::string cpu = machine.cpu.empty() ? "an unknown CPU" : machine.cpu;
    std::string cores = machine.cores == 1 ? "1 core" : format_count(machine.cores) + " cores";
    if (machine.cores == 0) cores = "cores";
    if (machine.cpu_limit > 0 && machine.cpu_limit < static_cast<double>(machine.cores)) {
      cores = fmt::format("{:.4g} of {}", machine.cpu_limit, cores);
    }
    parts.push_back(cores + " of " + cpu);
    const int64_t limit = machine.memory_limit_bytes;
    const bool is_limited =
        limit > 0 && (limit < machine.memory_bytes || machine.memory_bytes == 0);
    const int64_t memory = is_limited ? limit : machine.memory_bytes;
    if (memory > 0) parts.push_back(format_bytes(memory));
    if (!machine.kernel.empty()) parts.push_back("kernel " + machine.kernel);
    if (!machine.container_image.empty()) {
      parts.push_back("container " + machine.container_image);
    } else if (!machine.container.empty()) {
      parts.push_back("in " + machine.container);
    }
    if (!machine.instance_type.empty()) parts.push_back("instance " + machine.instance_type);
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (!report.libtorch.empty()) {
    text += (text.empty() ? "LibTorch " : "; LibTorch ") + report.libtorch;
    if (!report.device.empty()) text += " on " + report.device;
  }
  return text;
}

std::string used_text(const RunReport& report) {
  std::vector<std::string> parts;
  if (report.cpu_user_seconds) {
    parts.push_back("user " + brief_seconds(*report.cpu_user_seconds));
  }
  if (report.cpu_system_seconds) {
    parts.push_back("system " + brief_seconds(*report.cpu_system_seconds));
  }
  if (report.cores_busy) parts.push_back(fmt::format("{:.1f} cores busy", *report.cores_busy));
  if (report.peak_memory_bytes) {
    parts.push_back("peak memory " + format_bytes(*report.peak_memory_bytes));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string gpu_text(const RunReport& report) {
  if (!report.gpu) return "";
  const GpuLine& gpu = *report.gpu;
  std::vector<std::string> parts = {gpu.name.empty() ? "unknown" : gpu.name};
  if (gpu.activity) {
    parts.push_back(fmt::format("in a step {:.0f} % of the time", *gpu.activity * 100.0));
  }
  if (gpu.mean_power_watts) parts.push_back(fmt::format("{:.0f} W", *gpu.mean_power_watts));
  if (gpu.peak_memory_bytes) {
    parts.push_back("peak memory " + format_bytes(*gpu.peak_memory_bytes));
  }
  // Last, because what is too long is cut.
  if (!gpu.driver.empty()) parts.push_back("driver " + gpu.driver);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string recipe_text(const RunReport& report) {
  if (report.branched_from.empty()) return report.recipe;
  return fmt::format("{}, branched from {}", report.recipe, report.branched_from);
}

void add_processes(Screen& screen, const std::vector<ProcessLine>& processes, size_t shown) {
  if (processes.size() < 2) return;  // the rows above have said it all
  screen.blank();
  const size_t first = processes.size() > shown ? processes.size() - shown : 0;
  const std::string which =
      first == 0 ? "process" : fmt::format("the last {} of {}", shown, processes.size());
  screen.line(fmt::format("{:>4}  {:<{}}  {:>21}  {:>11}  {}", "", which, kHostColumns, "steps",
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
}

// One row, whatever their number: `tern report --json` lists them.
std::string bad_samples_text(const std::vector<BadSampleLine>& bad) {
  if (bad.empty()) return "";
  return fmt::format("{}, {}: {}: {}", format_count(static_cast<int64_t>(bad.size())),
                     bad.front().done, bad.front().sample, bad.front().cause);
}

// The newest, because a run that goes wrong says most at its end.
void add_warnings(Screen& screen, const std::vector<std::string>& warnings, size_t shown) {
  const size_t first = warnings.size() > shown ? warnings.size() - shown : 0;
  for (size_t i = first; i < warnings.size(); ++i) screen.row("warning", warnings[i]);
  if (first > 0) {
    screen.row("", fmt::format("and {} before these, in the ledger",
                               format_count(static_cast<int64_t>(first))));
  }
}

}  // namespace

std::string format_report(const RunReport& report) {
  if (report.is_program) return format_program_report(report);
  const LearningRows rows = learning_rows(report);
  // Where ranks wait for each other there is a span more.
  const size_t more_spans = report.seconds[Span::communication] > 0 ? 1 : 0;
  const Limits limits = limits_beside(rows.count() + more_spans);
  Screen screen;
  screen.line(fmt::format("run {}: {}", report.run, status_name(report.status)));
  screen.row(report.status == RunStatus::running ? "now" : "ended", report.reason,
             limits.reason_lines);
  screen.row("next", report.next_step, limits.next_lines);
  screen.blank();
  screen.row("recipe", recipe_text(report));
  screen.row("progress", progress_text(report));
  screen.row("accuracy", accuracy_text(report));
  screen.row("worst classes", rows.worst_classes);
  screen.row("target", rows.target);
  screen.row("weights", rows.weights);
  screen.row("diverged", rows.diverged);
  screen.row("loss", loss_text(report));
  screen.row("throughput", throughput_text(report));
  screen.row("ranks", rows.ranks);
  screen.row("scaling", rows.scaling);
  screen.row("interruptions", interruptions_text(report));
  screen.row("checkpoints", checkpoints_text(report));
  screen.row("cost", cost_text(report));
  screen.row("machine", machine_text(report), limits.machine_lines);
  screen.row("cpu, memory", used_text(report));
  screen.row("gpu", gpu_text(report));
  screen.row("use", rows.use);
  screen.blank();
  add_time_rows(screen, report);
  screen.row("verdict", report.verdict, limits.verdict_lines);
  add_processes(screen, report.processes, limits.processes);
  screen.row("bad samples", bad_samples_text(report.bad_samples));
  // The row of bad samples takes the place of a warning: the screen has no line to spare.
  add_warnings(screen, report.warnings, report.bad_samples.empty() ? kWarnings : kWarnings - 1);
  return screen.take();
}

}  // namespace tern
