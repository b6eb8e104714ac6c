// How a process ends: it leaves on a notice, finishes or fails, and closes what it held.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/accuracy_table.h"
#include "train/exit_codes.h"
#include "train/trainer_process.h"

namespace tern {
namespace {

constexpr char kWeightsObject[] = "model.safetensors";
constexpr char kBestWeightsObject[] = "best.safetensors";
constexpr char kReportObject[] = "report.json";

const char* kind_name(NoticeKind kind) {
  switch (kind) {
    case NoticeKind::preempt: return "preempt";
    case NoticeKind::stop: return "stop";
    case NoticeKind::advice: return "advice";
  }
  return "";
}

std::string what_to_do(const Notice& notice, int64_t unix_ms) {
  if (notice.kind == NoticeKind::stop) return "stopping: saving";
  if (notice.kind == NoticeKind::advice) return "notice: this machine may go; saving and going on";
  if (notice.deadline_unix_ms == 0) return "notice: this machine will go; saving";
  const int64_t left_s = std::max<int64_t>(0, notice.deadline_unix_ms - unix_ms) / 1000;
  return fmt::format("notice: this machine will go in {} s; saving", left_s);
}

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

Outcome outcome_of(const Notice& notice) {
  const bool is_preempt = notice.kind == NoticeKind::preempt;
  return Outcome{.status = is_preempt ? RunStatus::preempted : RunStatus::stopped,
                 .exit_code = is_preempt ? kExitPreempted : kExitStopped,
                 .reason = (is_preempt ? "notice by " : "by ") + notice.source};
}

void Trainer::note_notice(const Notice& notice) {
  nlohmann::json fields = {{"notice", kind_name(notice.kind)},
                           {"source", notice.source},
                           {"id", notice.id},
                           {"step", state_.step}};
  if (notice.deadline_unix_ms != 0) fields["deadline_ms"] = notice.deadline_unix_ms;
  records_->ledger("notice", fields);
  setup_.log->info("train", what_to_do(notice, setup_.clock->unix_ms()),
                   {{"source", notice.source}, {"step", std::to_string(state_.step)}});
}

Result<Outcome> Trainer::leave(const Notice& notice) {
  note_notice(notice);
  if (!state_is_saved_) RETURN_IF_ERROR(save("notice"));
  return outcome_of(notice);
}

// The machine may go: what is saved now is not lost if it does.
Status Trainer::heed(const Notice& advice) {
  note_notice(advice);
  return state_is_saved_ ? Status() : save("notice");
}

// Whether the machine goes so soon that only what the next process needs should still be written.
bool Trainer::time_is_short() const {
  constexpr Milliseconds kShort{10'000};
  const std::optional<Notice> notice = setup_.board->notice();
  if (!notice || notice->deadline_unix_ms == 0) return false;
  return notice->deadline_unix_ms - setup_.clock->unix_ms() < kShort.count();
}

Result<Outcome> Trainer::finish(std::string reason) {
  const bool is_evaluated = state_.step == timeline_.first_step_of(state_.epochs_closed) &&
                            evaluation_is_due_after(state_.epochs_closed);
  RETURN_IF_ERROR(finish_steps());
  if (!is_evaluated && config_.train.evaluate_every > 0) {
    // For the report only: it must not become part of the state, which goes on with a larger
    // --steps as if this stop had not been.
    ASSIGN_OR_RETURN(const std::optional<Evaluation> test, evaluate_now(/*is_last=*/true));
    if (!test && is_together()) return leave_with_all();
    if (!test) return leave(*setup_.board->notice());
  }
  if (is_together()) RETURN_IF_ERROR(hear_bad_samples());
  if (!state_is_saved_) RETURN_IF_ERROR(save("end"));
  // Done means that the result is there.
  if (!state_is_saved_) return save_error_->at("the last checkpoint could not be written");
  return Outcome{.status = RunStatus::done, .exit_code = kExitDone, .reason = std::move(reason)};
}

// What every end has in common: the record of it, the weights, the report, the lease given back.
// `aborted` if the run was lost meanwhile: then nothing of it is written.
Status Trainer::close(Outcome& outcome) {
  const Status confirmed = sequence_->confirm();
  if (!confirmed.has_value() && confirmed.error().code == Code::aborted) return confirmed;
  const auto warn_if_failed = [&](const char* what, const Status& status) {
    if (!status.has_value())
      setup_.log->warn("train", what, {{"cause", status.error().to_string()}});
  };
  // A checkpoint has the weights, and `tern report` makes the report again.
  const bool is_hasty = outcome.status == RunStatus::preempted && time_is_short();
  if (outcome.status != RunStatus::failed && !is_hasty) {
    const Status written = write_weights();
    warn_if_failed("cannot write model.safetensors", written);
    if (!written.has_value() && outcome.status == RunStatus::done) {
      outcome.status = RunStatus::failed;
      outcome.exit_code = exit_code_of(written.error().code);
      outcome.reason = written.error().at("the weights could not be written").to_string();
    }
  }
  nlohmann::json fields = use_fields();
  fields.update({{"status", status_name(outcome.status)},
                 {"step", state_.step},
                 {"reason", outcome.reason},
                 {"exit_code", outcome.exit_code},
                 {"samples", state_.samples - first_samples_},
                 {"steps_lost", outcome.steps_lost}});
  records_->finish_watching();
  records_->ledger("end", fields);
  // It reads all records, which a store that did not take one just now need not be waited for.
  if (!is_hasty) {
    warn_if_failed("cannot write report.json", confirmed.has_value() ? write_report() : confirmed);
  }
  warn_if_failed("cannot give back the lease; the next process may have to wait for it",
                 sequence_->release());
  return {};
}

// What this process has used: time, by the span, processor, memory, GPU.
nlohmann::json Trainer::use_fields() {
  SpanTimes spans = spans_.totals();
  for (const Span span : kAllSpans) spans[span] -= spans_before_[span];
  const DeviceUse device = learner_->device_use();
  if (setup_.device != kCpu) spans = as_seen_by_device(spans, device.compute);
  nlohmann::json seconds;
  for (const Span span : kAllSpans) {
    // Only ranks wait for each other.
    if (span == Span::communication && setup_.ranks == nullptr) continue;
    seconds[std::string(span_name(span))] = tern::to_seconds(spans[span]);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::json fields = {{"wall_seconds", tern::to_seconds(spans.total())},
                           {"seconds", seconds},
                           {"cpu_user_seconds", to_seconds(usage.ru_utime)},
                           {"cpu_system_seconds", to_seconds(usage.ru_stime)},
                           {"peak_memory_bytes", int64_t{usage.ru_maxrss} * 1024}};
  if (setup_.ranks != nullptr) fields["ranks"] = ranks_fields();
  if (gpu_) {
    fields["gpu"] = {{"name", gpu_->name},
                     {"compute_seconds", tern::to_seconds(device.compute)},
                     {"steps", device.steps},
                     {"dry_steps", device.dry_steps},
                     {"peak_memory_bytes", device.peak_memory_bytes}};
    const Result<double> energy = gpu_driver_->energy_joules(setup_.gpu_index);
    if (energy_before_joules_ && energy.has_value()) {
      fields["gpu"]["energy_joules"] = *energy - *energy_before_joules_;
    }
  }
  return fields;
}

// The weights of the best evaluation, beside those of the end. The best checkpoint is kept anyway:
// this is the file that other tools load.
void Trainer::write_best() {
  const auto write = [this]() -> Status {
    ASSIGN_OR_RETURN(const Bytes weights, learner_->weights());
    return setup_.run->put(kBestWeightsObject, weights);
  };
  if (const Status written = write(); !written.has_value()) {
    records_->warning("cannot write best.safetensors: " + written.error().to_string(), state_.step);
  }
}

// Epoch by epoch what it took to come there, until the target. Returns the newest row.
std::optional<AccuracyRow> Trainer::write_accuracy_table() {
  const std::vector<AccuracyRow> rows = records_->accuracy();
  const AccuracyTarget target{.top1 = config_.train.target_top1, .top5 = config_.train.target_top5};
  const Status written = setup_.run->put(kAccuracyObject, accuracy_table(rows, target));
  if (!written.has_value()) {
    records_->warning("cannot write accuracy.tsv: " + written.error().to_string(), state_.step);
  }
  if (rows.empty()) return std::nullopt;
  return rows.back();
}

Status Trainer::write_weights() {
  ASSIGN_OR_RETURN(const Bytes weights, learner_->weights());
  return setup_.run->put(kWeightsObject, weights);
}

Status Trainer::write_report() {
  ASSIGN_OR_RETURN(const RunReport report, read_report(*setup_.run, setup_.run_name));
  return setup_.run->put(kReportObject, report_json(report).dump(2) + "\n");
}

Outcome Trainer::train_and_close() {
  const Result<Outcome> ended = run();
  spans_.enter(Span::other);
  loader_.reset();
  Outcome outcome;
  if (ended.has_value()) outcome = *ended;
  const auto fail_with = [&](const Error& error) {
    outcome.status = RunStatus::failed;
    outcome.exit_code = exit_code_of(error.code);
    outcome.reason = error.to_string();
    setup_.log->error("train", error.to_string(), {{"step", std::to_string(state_.step)}});
  };
  if (!ended.has_value()) fail_with(ended.error());
  outcome.has_led = leads_;
  outcome.step = state_.step;
  outcome.steps_lost = state_is_saved_ ? 0 : state_.step - saved_step_.value_or(0);
  // Whoever has lost the run writes nothing more into it: the ledger is its new holder's.
  const bool is_lost = !ended.has_value() && ended.error().code == Code::aborted;
  if (leads_ && !is_lost) {
    if (const Status closed = close(outcome); !closed.has_value()) fail_with(closed.error());
  }
  // Last: only now may another rank take the run.
  if (setup_.ranks != nullptr) setup_.ranks->leave(outcome.reason);
  return outcome;
}

}  // namespace tern
