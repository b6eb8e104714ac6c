#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/clock.h"
#include "report/record_fields.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"

namespace tern {

namespace {

using nlohmann::json;

constexpr char kKilled[] = "the process was killed or the machine was lost: it left no end record";

// One process of the run while its records are collected.
struct Process {
  ProcessLine line;
  int64_t start_ms = 0;
  int64_t last_ms = 0;               // last sign of life
  std::optional<RunStatus> end;      // of its end record; nothing: it has written none
  std::optional<double> end_wall_s;  // from the end record
  int64_t end_steps_lost = 0;        // from the end record: the final save failed
  std::string reason;                // from the end record
  std::string notice_source;         // "SIGTERM"
  std::optional<int64_t> price_microusd_per_hour;
};

// A step as the metrics have it.
struct StepLoss {
  int64_t step = 0;
  std::optional<double> loss;
};

// The report and what is needed to finish it.
struct Draft {
  RunReport report;
  std::vector<Process> processes;
  std::vector<StepLoss> steps;  // in the order of the file; a repeated step is there twice
  int64_t resume_step = 0;      // where the next process would begin, by the ledger
  int64_t samples_per_epoch = 0;
  int64_t batch = 0;
  int64_t skipped = 0;
};

std::optional<RunStatus> parse_end_status(const std::string& text) {
  for (RunStatus status :
       {RunStatus::done, RunStatus::preempted, RunStatus::stopped, RunStatus::failed}) {
    if (text == status_name(status)) return status;
  }
  return std::nullopt;
}

void begin_process(Draft& draft, const json& record) {
  Process process;
  process.start_ms = count_or(record, "ms", 0);
  process.line.host = text_or(record, "host", "");
  process.line.pid = count_or(record, "pid", 0);
  process.line.first_step = count_or(record, "step", 0);
  process.line.last_step = process.line.first_step;
  process.line.steps_lost = count_or(record, "steps_lost", 0);
  draft.processes.push_back(std::move(process));

  // A resume may differ from the start in what may change on resume: the later one tells what is.
  RunReport& report = draft.report;
  report.recipe = text_or(record, "recipe", report.recipe.c_str());
  report.command = text_or(record, "command", report.command.c_str());
  report.total_steps = count_or(record, "total_steps", report.total_steps);
  report.epochs = count_or(record, "epochs", report.epochs);
  draft.samples_per_epoch = count_or(record, "samples_per_epoch", draft.samples_per_epoch);
  draft.batch = count_or(record, "batch", draft.batch);
  draft.resume_step = count_or(record, "step", 0);
}

void add_evaluation(Draft& draft, const json& record) {
  const std::optional<double> top1 = find_number(record, "top1");
  if (!top1) {
    ++draft.skipped;
    return;
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const EvaluationLine line = {.epoch = count_or(record, "epoch", 0),
                               .step = count_or(record, "step", 0),
                               .loss = find_number(record, "loss").value_or(kNone),
                               .top1 = *top1,
                               .top5 = find_number(record, "top5").value_or(kNone)};
  RunReport& report = draft.report;
  report.last_evaluation = line;
  if (!report.best_evaluation || line.top1 > report.best_evaluation->top1) {
    report.best_evaluation = line;
  }
}

void add_end(Draft& draft, Process& process, const json& record) {
  const std::optional<RunStatus> status = parse_end_status(text_or(record, "status", ""));
  if (!status) ++draft.skipped;
  process.end = status.value_or(RunStatus::failed);
  process.reason = text_or(record, "reason", "");
  process.end_wall_s = find_number(record, "wall_seconds");
  process.end_steps_lost = count_or(record, "steps_lost", 0);
}

void add_ledger_record(Draft& draft, const json& record) {
  const std::string kind = text_or(record, "kind", "");
  if (kind == "start" || kind == "resume") {
    begin_process(draft, record);
  } else if (draft.processes.empty()) {
    // The line that began the first process is damaged; all that is known of it is when it lived.
    begin_process(draft, {{"ms", count_or(record, "ms", 0)}});
  }
  Process& process = draft.processes.back();
  process.last_ms = std::max(process.last_ms, count_or(record, "ms", 0));
  process.line.last_step =
      std::max(process.line.last_step, count_or(record, "step", process.line.last_step));
  if (const auto price = find_count(record, "price_microusd_per_hour")) {
    process.price_microusd_per_hour = price;
  }

  RunReport& report = draft.report;
  if (kind == "notice") {
    process.notice_source = text_or(record, "source", "");
  } else if (kind == "checkpoint") {
    ++report.checkpoints;
    report.checkpoint_bytes = count_or(record, "bytes", report.checkpoint_bytes);
    draft.resume_step = count_or(record, "step", draft.resume_step);
  } else if (kind == "warning") {
    report.warnings.push_back(text_or(record, "what", "a warning without text"));
  } else if (kind == "evaluation") {
    add_evaluation(draft, record);
  } else if (kind == "end") {
    add_end(draft, process, record);
  }
}

// Steps say when they were done, not by whom: it was the last process that had begun before then.
// The first step comes well over a millisecond after the start, so equal times are the old process.
void add_step(Draft& draft, const json& record) {
  const std::optional<int64_t> step = find_count(record, "step");
  if (!step || record.contains("epoch_done")) return;
  draft.steps.push_back({.step = *step, .loss = find_number(record, "loss")});
  draft.report.samples += count_or(record, "samples", 0);
  const std::optional<int64_t> ms = find_count(record, "ms");
  if (!ms) return;
  auto process = std::find_if(draft.processes.rbegin(), draft.processes.rend(),
                              [&](const Process& each) { return each.start_ms < *ms; });
  if (process == draft.processes.rend()) return;
  process->last_ms = std::max(process->last_ms, *ms);
  // An end record's own count stands: it was written after the last step.
  if (!process->end) process->line.last_step = std::max(process->line.last_step, *step);
}

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

void settle_unended(Draft& draft, Process& last, const HolderState& holder) {
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
      report.reason = fmt::format("{} trains it; last sign of life {}", who, seen);
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

void settle_status(Draft& draft, ObjectStore& run) {
  RunReport& report = draft.report;
  Process& last = draft.processes.back();
  if (last.end) {
    report.status = *last.end;
    report.reason = last.reason;
  } else {
    settle_unended(draft, last, find_holder(run, report));
  }
  const std::string again =
      draft.resume_step == 0
          ? "run the same command again: it starts at step 0"
          : fmt::format("run the same command again: it resumes at step {}", draft.resume_step);
  if (report.status == RunStatus::preempted || report.status == RunStatus::stopped) {
    report.next_step = again;
  } else if (report.status == RunStatus::failed) {
    report.next_step = last.end ? "remove the cause, then " + again : again;
  }
}

// "preempted: SIGTERM", "failed: disk full"
std::string describe_end(const Process& process) {
  if (!process.line.ended.empty()) return process.line.ended;
  if (!process.end) return "killed without a word";
  const std::string name(status_name(*process.end));
  if (*process.end == RunStatus::done) return name;
  const bool by_notice = *process.end != RunStatus::failed && !process.notice_source.empty();
  const std::string& cause = by_notice ? process.notice_source : process.reason;
  return cause.empty() ? name : name + ": " + cause;
}

// Money is in whole micro-dollars, each process at the price it knew.
std::optional<int64_t> total_cost(const std::vector<Process>& processes) {
  // Doubles hold whole numbers exactly below this; only a damaged record gets there.
  constexpr double kLargest = 9e15;
  double cost = 0;
  for (const Process& process : processes) {
    if (!process.price_microusd_per_hour) return std::nullopt;
    const double price = static_cast<double>(*process.price_microusd_per_hour);
    cost += std::round(process.line.wall_seconds / 3600.0 * price);
  }
  if (cost > kLargest) return std::nullopt;
  return static_cast<int64_t>(cost);
}

void settle_totals(Draft& draft) {
  RunReport& report = draft.report;
  const bool is_running = report.status == RunStatus::running;
  for (Process& process : draft.processes) {
    const bool is_last = &process == &draft.processes.back();
    const double lived_s =
        static_cast<double>(std::max<int64_t>(0, process.last_ms - process.start_ms)) / 1000.0;
    process.line.wall_seconds = std::max(0.0, process.end_wall_s.value_or(lived_s));
    process.line.ended = describe_end(process);
    report.wall_seconds += process.line.wall_seconds;
    report.steps_lost += process.line.steps_lost;
    const bool ended_well = process.end == RunStatus::done || (is_last && is_running);
    if (!ended_well) ++report.interruptions;
    report.processes.push_back(process.line);
  }
  const Process& last = draft.processes.back();
  report.step = last.line.last_step;
  // What the last process lost is in no resume record yet.
  if (last.end) {
    report.steps_lost += last.end_steps_lost;
  } else if (!is_running) {
    report.steps_lost += std::max<int64_t>(0, report.step - draft.resume_step);
  }
  if (draft.batch > 0 && draft.samples_per_epoch > 0) {
    const int64_t steps_per_epoch = (draft.samples_per_epoch + draft.batch - 1) / draft.batch;
    report.epochs_done = report.step / steps_per_epoch;
  }
  // Below the records' own millisecond a rate would only be noise.
  if (report.wall_seconds >= 0.001) {
    report.samples_per_second = static_cast<double>(report.samples) / report.wall_seconds;
  }
  report.cost_microusd = total_cost(draft.processes);
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

Result<RunReport> read_report(ObjectStore& run, const std::string& run_name) {
  Draft draft;
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
  ASSIGN_OR_RETURN(const std::vector<json> metrics,
                   read_json_records(run, kMetricsObject, draft.skipped).at("report " + run_name));
  for (const json& record : ledger) add_ledger_record(draft, record);
  for (const json& record : metrics) add_step(draft, record);
  settle_status(draft, run);
  settle_totals(draft);
  if (draft.skipped > 0) {
    draft.report.warnings.push_back(
        fmt::format("{} damaged line{} of {} and {} skipped: numbers here may be too low",
                    draft.skipped, draft.skipped == 1 ? "" : "s", kLedgerObject, kMetricsObject));
  }
  return std::move(draft.report);
}

}  // namespace tern
