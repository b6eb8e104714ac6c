#include "report/run_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "report/record_fields.h"
#include "storage/ledger.h"

namespace tern {

namespace {

using nlohmann::json;

std::optional<RunStatus> parse_end_status(const std::string& text) {
  for (RunStatus status :
       {RunStatus::done, RunStatus::preempted, RunStatus::stopped, RunStatus::failed}) {
    if (text == status_name(status)) return status;
  }
  return std::nullopt;
}

std::optional<Holder> find_holder(const json& record) {
  const json* holder = find_object(record, "holder");
  if (holder == nullptr) return std::nullopt;
  return Holder{.token = text_or(record, "token", ""),
                .host = text_or(record, "host", ""),
                .boot_id = text_or(*holder, "boot_id", ""),
                .pid_namespace = text_or(*holder, "pid_namespace", ""),
                .pid = count_or(record, "pid", 0),
                .pid_start = count_or(*holder, "pid_start", 0)};
}

void begin_process(RunDraft& draft, const json& record) {
  ProcessDraft process;
  process.start_ms = count_or(record, "ms", 0);
  process.line.host = text_or(record, "host", "");
  process.line.pid = count_or(record, "pid", 0);
  process.line.first_step = count_or(record, "step", 0);
  process.line.last_step = process.line.first_step;
  process.line.steps_lost = count_or(record, "steps_lost", 0);
  process.holder = find_holder(record);
  read_start(process.used, record);
  draft.report.is_program = process.holder.has_value();
  draft.processes.push_back(std::move(process));

  // A resume may differ from the start in what may change on resume: the later one tells what is.
  RunReport& report = draft.report;
  report.recipe = text_or(record, "recipe", report.recipe.c_str());
  report.command = text_or(record, "command", report.command.c_str());
  report.shuffle = text_or(record, "shuffle", "");
  report.shuffle_quality = find_number(record, "shuffle_quality");
  report.total_steps = count_or(record, "total_steps", report.total_steps);
  report.epochs = count_or(record, "epochs", report.epochs);
  draft.samples_per_epoch = count_or(record, "samples_per_epoch", draft.samples_per_epoch);
  draft.batch = count_or(record, "batch", draft.batch);
  draft.resume_step = count_or(record, "step", 0);
  if (const json* from = find_object(record, "from")) {
    report.branched_from =
        fmt::format("{}@{}", text_or(*from, "run", "?"), count_or(*from, "step", 0));
  }
}

// Empty if there is none, or one of its numbers is no accuracy.
std::vector<double> find_class_top1(const json& record) {
  std::vector<double> classes;
  const auto list = record.find("class_top1");
  if (list == record.end() || !list->is_array()) return {};
  for (const json& top1 : *list) {
    if (!top1.is_number()) return {};
    const double value = top1.get<double>();
    if (!(value >= 0 && value <= 1)) return {};
    classes.push_back(value);
  }
  return classes;
}

InitLine parse_init(const json& record) {
  const auto replaced = record.find("head_replaced");
  return {
      .file = text_or(record, "file", "a file without a name"),
      .sha256 = text_or(record, "sha256", ""),
      .tensors = count_or(record, "loaded", 0),
      .head_replaced = replaced != record.end() && replaced->is_boolean() && replaced->get<bool>(),
      .top1 = find_number(record, "top1"),
      .top5 = find_number(record, "top5")};
}

DivergedLine parse_diverged(const json& record) {
  return {.step = count_or(record, "step", 0),
          .loss = find_number(record, "loss"),
          .cause = text_or(record, "cause", "no cause told"),
          .done = text_or(record, "done", "stopped"),
          .to_step = count_or(record, "to_step", 0),
          .rate_factor = find_amount(record, "rate_factor").value_or(1)};
}

TargetLine parse_target(const json& record) {
  return {.epoch = count_or(record, "epoch", 0),
          .step = count_or(record, "step", 0),
          .hours = find_amount(record, "hours").value_or(0),
          .cost_usd = find_amount(record, "cost_usd"),
          .top1 = find_number(record, "top1"),
          .top5 = find_number(record, "top5")};
}

void add_evaluation(RunDraft& draft, const json& record) {
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
  draft.epochs.push_back({.step = line.step, .epochs_done = line.epoch});
  if (std::vector<double> classes = find_class_top1(record); !classes.empty()) {
    report.class_top1 = std::move(classes);
  }
  if (!report.best_evaluation || line.top1 > report.best_evaluation->top1) {
    report.best_evaluation = line;
  }
}

void add_end(RunDraft& draft, ProcessDraft& process, const json& record) {
  const std::optional<RunStatus> status = parse_end_status(text_or(record, "status", ""));
  if (!status) ++draft.skipped;
  process.end = status.value_or(RunStatus::failed);
  process.reason = text_or(record, "reason", "");
  process.end_wall_s = find_amount(record, "wall_seconds");
  process.end_steps_lost = count_or(record, "steps_lost", 0);
  read_end(process.used, record);
}

// The process that each lease number belongs to. Each process marks in the metrics where it begins,
// right after its record in the ledger, so that with as many marks as processes the order tells
// them apart, whatever the clocks said. With fewer (one died in between; a line is damaged) it is
// the last process that had begun by the time of the mark.
std::map<int64_t, size_t> match_leases(const RunDraft& draft,
                                       const std::vector<std::string>& lines) {
  constexpr char kMark[] = "process_begins";
  std::vector<json> marks;
  for (const std::string& line : lines) {
    if (line.find(kMark) == std::string::npos) continue;
    std::optional<json> record = parse_json_record(line);
    if (record && record->contains(kMark)) marks.push_back(std::move(*record));
  }
  const std::vector<ProcessDraft>& processes = draft.processes;
  std::map<int64_t, size_t> owners;
  for (size_t i = 0; i < marks.size(); ++i) {
    const std::optional<int64_t> lease = find_count(marks[i], "lease");
    if (!lease) continue;
    if (marks.size() == processes.size()) {
      owners[*lease] = i;
      continue;
    }
    const std::optional<int64_t> ms = find_count(marks[i], "ms");
    if (!ms) continue;
    for (size_t p = processes.size(); p-- > 0;) {
      if (processes[p].start_ms > *ms) continue;
      owners[*lease] = p;
      break;
    }
  }
  return owners;
}

// Who did a step: by its lease, or else the last process that had begun before its time. The first
// step comes well over a millisecond after the start, so equal times are the old process.
ProcessDraft* find_process(RunDraft& draft, const std::map<int64_t, size_t>& owners,
                           const json& record) {
  if (const auto lease = find_count(record, "lease")) {
    const auto owner = owners.find(*lease);
    if (owner != owners.end()) return &draft.processes[owner->second];
  }
  const std::optional<int64_t> ms = find_count(record, "ms");
  if (!ms) return nullptr;
  const auto process = std::find_if(draft.processes.rbegin(), draft.processes.rend(),
                                    [&](const ProcessDraft& each) { return each.start_ms < *ms; });
  return process == draft.processes.rend() ? nullptr : &*process;
}

void add_step(RunDraft& draft, const std::map<int64_t, size_t>& owners, const json& record) {
  const std::optional<int64_t> step = find_count(record, "step");
  if (!step) return;
  if (record.contains("epoch_done")) {
    draft.epochs.push_back({.step = *step, .epochs_done = count_or(record, "epoch_done", 0)});
    return;
  }
  draft.steps.push_back(
      {.step = *step, .epoch = count_or(record, "epoch", 0), .loss = find_number(record, "loss")});
  draft.report.samples += count_or(record, "samples", 0);
  ProcessDraft* process = find_process(draft, owners, record);
  if (process == nullptr) return;
  process->last_ms = std::max(process->last_ms, count_or(record, "ms", 0));
  // An end record's own count stands: it was written after the last step.
  if (!process->end) {
    const int64_t before = process->went_back ? 0 : process->line.last_step;
    process->line.last_step = std::max(before, *step);
  }
  read_step(process->used, record);
}

// Every process of a run tells of the sample anew.
void add_bad_sample(RunReport& report, const json& record) {
  BadSampleLine line{.sample = text_or(record, "sample", "a sample without a name"),
                     .cause = text_or(record, "cause", "no cause told"),
                     .done = text_or(record, "done", "skipped")};
  const auto is_same = [&](const BadSampleLine& each) { return each.sample == line.sample; };
  if (std::ranges::none_of(report.bad_samples, is_same)) {
    report.bad_samples.push_back(std::move(line));
  }
}

// A group of ranks has formed.
void add_ranks(RunReport& report, const json& record) {
  if (!report.ranks) report.ranks.emplace();
  RanksLine& ranks = *report.ranks;
  ranks.world = count_or(record, "world", ranks.world);
  ++ranks.generations;
  const auto lost = record.find("lost");
  if (lost != record.end() && lost->is_array()) ranks.lost += static_cast<int64_t>(lost->size());
  ranks.longest_gap_s = std::max(ranks.longest_gap_s, find_amount(record, "seconds").value_or(0));
}

}  // namespace

void add_ledger_record(RunDraft& draft, const json& record) {
  const std::string kind = text_or(record, "kind", "");
  if (kind == "start" || kind == "resume") {
    begin_process(draft, record);
  } else if (draft.processes.empty()) {
    // The line that began the first process is damaged; all that is known of it is when it lived.
    begin_process(draft, {{"ms", count_or(record, "ms", 0)}});
  }
  ProcessDraft& process = draft.processes.back();
  process.last_ms = std::max(process.last_ms, count_or(record, "ms", 0));
  process.line.last_step =
      std::max(process.line.last_step, count_or(record, "step", process.line.last_step));
  if (const auto price = find_count(record, "price_microusd_per_hour")) {
    process.price_microusd_per_hour = price;
  }

  RunReport& report = draft.report;
  if (kind == "notice") {
    // Advice ends no process.
    if (text_or(record, "notice", "") != "advice") {
      process.notice_source = text_or(record, "source", "");
    }
  } else if (kind == "checkpoint") {
    ++report.checkpoints;
    report.checkpoint_bytes = count_or(record, "bytes", report.checkpoint_bytes);
    draft.resume_step = count_or(record, "step", draft.resume_step);
  } else if (kind == "warning") {
    report.warnings.push_back(text_or(record, "what", "a warning without text"));
  } else if (kind == "bad_sample") {
    add_bad_sample(report, record);
  } else if (kind == "evaluation") {
    add_evaluation(draft, record);
  } else if (kind == "init") {
    report.init = parse_init(record);
  } else if (kind == "diverged") {
    report.diverged.push_back(parse_diverged(record));
    if (report.diverged.back().done == "rolled_back") {
      process.went_back = true;
      process.line.last_step = report.diverged.back().to_step;
    }
  } else if (kind == "target") {
    // The first counts: a run that goes on may reach it again.
    if (!report.target) report.target = parse_target(record);
  } else if (kind == "ranks") {
    add_ranks(report, record);
  } else if (kind == "end") {
    add_end(draft, process, record);
  }
}

void add_metrics(RunDraft& draft, const std::vector<std::string>& lines) {
  const std::map<int64_t, size_t> owners = match_leases(draft, lines);
  for (const std::string& line : lines) {
    if (const std::optional<json> record = parse_json_record(line)) {
      add_step(draft, owners, *record);
    } else {
      ++draft.skipped;
    }
  }
}

}  // namespace tern
