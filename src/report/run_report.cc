#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "report/class_names.h"
#include "report/run_draft.h"
#include "report/sampler.h"
#include "report/use.h"
#include "report/verdict.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"

namespace tern {

namespace {

using nlohmann::json;

constexpr char kKilled[] = "the process was killed or the machine was lost: it left no end record";

// Who holds the run, by its sequence. What cannot be read leaves the question open.
struct HolderState {
  Liveness liveness = Liveness::unknown;
  std::string name;  // "pid 4711 on machine tern-3", or empty
};

HolderState find_holder(ObjectStore& run, RunReport& report) {
  PrefixStore checkpoints(run, "checkpoints/");
  const Result<NewestRecord> found = newest_record(checkpoints);
  if (!found) {
    report.warnings.push_back("who holds the run cannot be read: " + found.error().message);
    return {};
  }
  for (const Damage& damage : found->damaged) {
    report.warnings.push_back(
        fmt::format("checkpoint record {} is damaged: {}", damage.number, damage.error.message));
  }
  const std::optional<SequenceRecord>& newest = found->record;
  if (!newest) return {};
  // Released on purpose: the process got as far as leaving, only its last words are missing.
  if (newest->kind == RecordKind::release) return {Liveness::dead, newest->holder.to_string()};
  const auto me = this_process();
  if (!me) return {Liveness::unknown, newest->holder.to_string()};
  return {liveness(newest->holder, *me), newest->holder.to_string()};
}

HolderState state_of(const Holder& holder) {
  const auto me = this_process();
  return {me ? liveness(holder, *me) : Liveness::unknown, holder.to_string()};
}

// What a program's next start begins with, which is not counted in steps.
std::string program_again(const RunReport& report) {
  return report.checkpoints == 0 ? "launch it again with the same --run: it starts anew"
                                 : "launch it again with the same --run: it finds what it saved";
}

void settle_unended(RunDraft& draft, ProcessDraft& last, const HolderState& holder) {
  RunReport& report = draft.report;
  const std::string seen = format_utc(last.last_ms);
  const std::string who = holder.name.empty() ? "a process" : holder.name;
  switch (holder.liveness) {
    case Liveness::dead:
      report.status = RunStatus::failed;
      report.reason = fmt::format("{}; last sign of life {}", kKilled, seen);
      last.line.ended = "killed without a word";
      return;
    case Liveness::alive:
      report.reason = fmt::format("{} {} it; last sign of life {}", who,
                                  report.is_program ? "runs" : "trains", seen);
      break;
    case Liveness::unknown:
      report.reason =
          fmt::format("{} may be training it, elsewhere; last sign of life {}", who, seen);
      report.next_step = fmt::format(
          "wait, or if that machine is gone run the same command again: it takes the run over and "
          "resumes at step {}",
          draft.resume_step);
      break;
  }
  report.status = RunStatus::running;
  last.line.ended = "still running";
}

void settle_status(RunDraft& draft, ObjectStore& run) {
  RunReport& report = draft.report;
  ProcessDraft& last = draft.processes.back();
  if (last.end) {
    report.status = *last.end;
    report.reason = last.reason;
  } else {
    settle_unended(draft, last, last.holder ? state_of(*last.holder) : find_holder(run, report));
  }
  const std::string again =
      report.is_program ? program_again(report)
      : draft.resume_step == 0
          ? "run the same command again: it starts at step 0"
          : fmt::format("run the same command again: it resumes at step {}", draft.resume_step);
  if (report.status == RunStatus::preempted || report.status == RunStatus::stopped) {
    report.next_step = again;
  } else if (report.status == RunStatus::failed) {
    report.next_step = last.end ? "remove the cause, then " + again : again;
  }
}

// "preempted: SIGTERM", "failed: disk full"
std::string describe_end(const ProcessDraft& process) {
  if (!process.line.ended.empty()) return process.line.ended;
  if (!process.end) return "killed without a word";
  const std::string name(status_name(*process.end));
  if (*process.end == RunStatus::done) return name;
  const bool by_notice = *process.end != RunStatus::failed && !process.notice_source.empty();
  const std::string& cause = by_notice ? process.notice_source : process.reason;
  return cause.empty() ? name : name + ": " + cause;
}

// Money is in whole micro-dollars, each process at the price it knew, or all at the one given.
std::optional<int64_t> total_cost(const std::vector<ProcessDraft>& processes,
                                  const ReportOptions& options) {
  // Doubles hold whole numbers exactly below this; only a damaged record gets there.
  constexpr double kLargest = 9e15;
  double cost = 0;
  for (const ProcessDraft& process : processes) {
    const std::optional<int64_t> known = options.price_microusd_per_hour
                                             ? options.price_microusd_per_hour
                                             : process.price_microusd_per_hour;
    if (!known) return std::nullopt;
    cost += std::round(process.line.wall_seconds / 3600.0 * static_cast<double>(*known));
  }
  if (cost > kLargest) return std::nullopt;
  return static_cast<int64_t>(cost);
}

// Without an end record a process lived as long as its steps say, by a clock that does not jump.
// The calendar's word for it, from its first record to its last sign of life, counts only where
// they are silent.
double wall_seconds(const ProcessDraft& process) {
  if (process.end_wall_s) return *process.end_wall_s;
  if (const auto seconds = process.used.seconds()) return seconds->total();
  return static_cast<double>(std::max<int64_t>(0, process.last_ms - process.start_ms)) / 1000.0;
}

void settle_processes(RunDraft& draft) {
  RunReport& report = draft.report;
  const bool is_running = report.status == RunStatus::running;
  for (ProcessDraft& process : draft.processes) {
    const bool is_last = &process == &draft.processes.back();
    process.line.wall_seconds = wall_seconds(process);
    process.used.wall_seconds = process.line.wall_seconds;
    process.line.ended = describe_end(process);
    report.wall_seconds += process.line.wall_seconds;
    report.steps_lost += process.line.steps_lost;
    const bool ended_well = process.end == RunStatus::done || (is_last && is_running);
    if (!ended_well) ++report.interruptions;
    report.processes.push_back(process.line);
  }
  const ProcessDraft& last = draft.processes.back();
  report.step = last.line.last_step;
  // What the last process lost is in no resume record yet.
  if (last.end) {
    report.steps_lost += last.end_steps_lost;
  } else if (!is_running) {
    report.steps_lost += std::max<int64_t>(0, report.step - draft.resume_step);
  }
}

std::optional<RankWaits> waits_of(const RunReport& report) {
  if (!report.ranks || !report.ranks->scaling) return std::nullopt;
  const GroupTime& group = report.ranks->group;
  return RankWaits{.network_seconds = group.communication_seconds,
                   .straggling_seconds = report.ranks->scaling->straggling * group.step_seconds,
                   .regroup_seconds = std::max(
                       0.0, report.seconds[Span::communication] - group.leader_wait_seconds)};
}

void settle_resources(RunDraft& draft) {
  RunReport& report = draft.report;
  std::vector<ProcessResources> used;
  int64_t steps = 0;
  for (const ProcessDraft& process : draft.processes) {
    used.push_back(process.used);
    steps += std::max<int64_t>(0, process.line.last_step - process.line.first_step);
  }
  add_resources(report, used);
  double dry_share = 0;
  if (report.gpu && report.gpu->steps.value_or(0) > 0) {
    dry_share = static_cast<double>(report.gpu->dry_steps.value_or(0)) /
                static_cast<double>(*report.gpu->steps);
  }
  report.verdict = verdict({.seconds = report.seconds,
                            .wall_seconds = report.wall_seconds,
                            .steps = steps,
                            .processes = static_cast<int64_t>(used.size()),
                            .is_on_gpu = report.device.starts_with("cuda"),
                            .dry_share = dry_share,
                            .cores = report.machine ? report.machine->cores : 0,
                            .loader_threads = used.back().loader_threads,
                            .slowest_rank = report.ranks ? report.ranks->slowest : "",
                            .slowest_seconds = report.ranks ? report.ranks->slowest_seconds : 0,
                            .slowest_ratio = report.ranks ? report.ranks->slowest_ratio : 1,
                            .waits = waits_of(report)});
}

// Whole epochs that lie behind the step the run is at. What the records say counts, because batches
// may differ from epoch to epoch; lines beyond that step were lost, and are done again.
void settle_epochs(RunDraft& draft) {
  RunReport& report = draft.report;
  for (const EpochMark& mark : draft.epochs) {
    if (mark.step <= report.step)
      report.epochs_done = std::max(report.epochs_done, mark.epochs_done);
  }
  for (const StepLoss& line : draft.steps) {
    if (line.step <= report.step) report.epochs_done = std::max(report.epochs_done, line.epoch);
  }
  if (!draft.steps.empty() || !draft.epochs.empty()) return;
  // The metrics are gone, and nothing was evaluated.
  if (draft.batch > 0 && draft.samples_per_epoch > 0) {
    const int64_t steps_per_epoch = (draft.samples_per_epoch + draft.batch - 1) / draft.batch;
    report.epochs_done = report.step / steps_per_epoch;
  }
}

void settle_totals(RunDraft& draft, const ReportOptions& options) {
  RunReport& report = draft.report;
  // Below the records' own millisecond a rate would only be noise.
  if (report.wall_seconds >= 0.001) {
    report.samples_per_second = static_cast<double>(report.samples) / report.wall_seconds;
  }
  report.cost_microusd = total_cost(draft.processes, options);
  const auto newest = std::find_if(draft.steps.rbegin(), draft.steps.rend(),
                                   [&](const StepLoss& line) { return line.step <= report.step; });
  if (newest != draft.steps.rend()) report.train_loss = newest->loss;
}

}  // namespace

std::string_view status_name(RunStatus status) {
  switch (status) {
    case RunStatus::done: return "done";
    case RunStatus::preempted: return "preempted";
    case RunStatus::stopped: return "stopped";
    case RunStatus::failed: return "failed";
    case RunStatus::running: return "running";
  }
  return "unknown";
}

std::vector<ClassLine> worst_classes(const RunReport& report, size_t count) {
  std::vector<ClassLine> classes;
  for (size_t i = 0; i < report.class_top1.size(); ++i) {
    classes.push_back({.index = static_cast<int64_t>(i),
                       .name = i < report.class_names.size() ? report.class_names[i] : "",
                       .top1 = report.class_top1[i]});
  }
  std::ranges::stable_sort(classes, {}, &ClassLine::top1);
  classes.resize(std::min(classes.size(), count));
  return classes;
}

std::optional<double> useful_share(const RunReport& report) {
  const std::optional<double>& alone = report.compute_samples_per_second;
  if (!alone || *alone <= 0) return std::nullopt;
  return report.samples_per_second / *alone;
}

Result<RunReport> read_report(ObjectStore& run, const std::string& run_name,
                              const ReportOptions& options) {
  RunDraft draft;
  draft.report.run = run_name;
  ASSIGN_OR_RETURN(const std::vector<json> ledger,
                   read_json_records(run, kLedgerObject, draft.skipped).at("report " + run_name));
  if (ledger.empty() && draft.skipped > 0) {
    return fail(Code::corrupt,
                fmt::format("report {}: no line of its {} can be read; the checkpoints do not "
                            "depend on it: run the same command again to resume",
                            run_name, kLedgerObject));
  }
  if (ledger.empty()) {
    return fail(Code::not_found,
                fmt::format("there is no run in {} (no {}); give the folder of a run, or begin one "
                            "with `tern train RECIPE --run {}`",
                            run_name, kLedgerObject, run_name));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> metrics,
                   read_records(run, kMetricsObject).at("report " + run_name));
  ASSIGN_OR_RETURN(const std::vector<std::string> samples,
                   read_records(run, kSamplesObject).at("report " + run_name));
  ASSIGN_OR_RETURN(draft.report.class_names, read_class_names(run).at("report " + run_name));
  for (const json& record : ledger) add_ledger_record(draft, record);
  add_metrics(draft, metrics);
  settle_status(draft, run);
  settle_processes(draft);
  settle_resources(draft);
  settle_epochs(draft);
  settle_totals(draft, options);
  draft.report.use = summarise_use(samples, draft.skipped);
  if (draft.skipped > 0) {
    draft.report.warnings.push_back(fmt::format(
        "{} damaged line{} of {}, {} or {} skipped: numbers here may be too low", draft.skipped,
        draft.skipped == 1 ? "" : "s", kLedgerObject, kMetricsObject, kSamplesObject));
  }
  return std::move(draft.report);
}

}  // namespace tern
