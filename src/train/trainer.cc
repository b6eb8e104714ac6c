#include "train/trainer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/progress.h"
#include "loader/loader.h"
#include "storage/prefix_store.h"
#include "train/evaluate.h"
#include "train/exit_codes.h"
#include "train/learner.h"
#include "train/machine.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/run_records.h"
#include "train/schedule.h"
#include "train/train_state.h"

namespace tern {
namespace {

constexpr char kCheckpointPrefix[] = "checkpoints/";
constexpr char kWeightsObject[] = "model.safetensors";
constexpr char kReportObject[] = "report.json";

// One process's part of a run.
class Trainer {
 public:
  Trainer(const TrainerSetup& setup, RunConfig config, RunData data)
      : setup_(setup),
        config_(std::move(config)),
        data_(std::move(data)),
        checkpoints_(*setup.run, kCheckpointPrefix),
        began_(setup.clock->now()) {}

  Status take_the_run();
  Status restore_or_start();
  Outcome train_and_close();
  // For a run that was taken but could not begin.
  void give_back() { sequence_->release().permit_unchecked_error(); }

 private:
  int64_t steps_per_epoch() const { return data_.plan->batches_per_epoch(); }
  int64_t whole_length() const { return steps_per_epoch() * config_.train.epochs; }
  int64_t last_step() const;
  StepEvent event(double loss) const;
  bool epoch_is_complete_but_open() const;
  std::optional<std::string> finished() const;

  Result<Outcome> run();
  Status train_one_step();
  Status close_epoch();
  Result<std::optional<Evaluation>> evaluate_now();
  Status keep_the_run();
  Status save(const char* why);
  Result<Outcome> leave(const Notice& notice);
  Result<Outcome> finish(std::string reason);
  Outcome failed(const Error& error);
  void close(Outcome& outcome);

  Status resume(const ResumePoint& point);
  std::unique_ptr<Loader> make_loader() const;
  Status write_run_file();
  nlohmann::json process_fields() const;
  Result<std::string> state_text(const std::vector<Bytes>& blobs);

  const TrainerSetup& setup_;
  RunConfig config_;
  const RunData data_;
  PrefixStore checkpoints_;
  const Nanoseconds began_;

  std::unique_ptr<Sequence> sequence_;
  std::unique_ptr<RunRecords> records_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Loader> loader_;
  TrainState state_;
  int64_t first_step_ = 0;  // of this process
  int64_t first_samples_ = 0;
  int64_t saved_step_ = 0;       // of the newest checkpoint
  bool state_is_saved_ = false;  // the newest checkpoint holds just this state
  Nanoseconds saved_at_{0};
};

// --- Beginning ------------------------------------------------------------------------------

Status Trainer::take_the_run() {
  Sequence::Setup setup{.store = &checkpoints_,
                        .clock = setup_.clock,
                        .me = setup_.me,
                        .lease = config_.lease,
                        .checkpoint = config_.checkpoint};
  setup.on_wait = [this](const Holder& holder, Milliseconds term) {
    setup_.log->info("train", "waiting for the run's holder, which may be alive elsewhere",
                     {{"holder", holder.to_string()}, {"for", format_duration(term)}});
  };
  ASSIGN_OR_RETURN(sequence_, Sequence::take(std::move(setup), setup_.board->stop_token()));
  return {};
}

Status Trainer::restore_or_start() {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(std::optional<ResumePoint> point, find_resume_point(checkpoints_, warnings));
  if (point) {
    // The checkpoint's own copy of the options decides; run.toml may have been lost or edited.
    ASSIGN_OR_RETURN(const auto changes, agree_with_recorded(config_, point->text.config_toml));
    for (const OptionChange& change : changes) {
      setup_.log->info("train", "option changed since the checkpoint",
                       {{"key", change.key}, {"before", change.before}, {"now", change.after}});
    }
  }
  if (config_.train.threads == 0) config_.train.threads = setup_.cores;
  ASSIGN_OR_RETURN(learner_, Learner::create({.model = config_.model,
                                              .optimizer = config_.optimizer,
                                              .label_smoothing = config_.train.label_smoothing,
                                              .seed = static_cast<uint64_t>(config_.train.seed),
                                              .shape = data_.train->shape(),
                                              .classes = data_.train->classes(),
                                              .threads = config_.train.threads}));
  const auto price = static_cast<int64_t>(config_.train.price * 1e6 + 0.5);
  ASSIGN_OR_RETURN(
      records_, RunRecords::open(*setup_.run, *setup_.clock, *setup_.log, price > 0 ? price : -1));
  RETURN_IF_ERROR(log_to_run_folder(*setup_.run, *setup_.log));
  ASSIGN_OR_RETURN(const int64_t recorded, last_recorded_step(*setup_.run));

  if (point) RETURN_IF_ERROR(resume(*point));
  nlohmann::json fields = process_fields();
  if (point) fields["checkpoint"] = point->checkpoint.record.number;
  const bool is_first = !point && recorded == 0 && warnings.empty();
  if (!is_first) fields["steps_lost"] = std::max<int64_t>(0, recorded - state_.step);
  RETURN_IF_ERROR(write_run_file());
  records_->ledger(is_first ? "start" : "resume", fields);
  records_->process_begins(state_.step);
  for (const std::string& warning : warnings) records_->warning(warning, state_.step);
  if (!warnings.empty() && !point) {
    records_->warning("no checkpoint is whole: starting at step 0; the damaged files are kept", 0);
  }
  setup_.log->info("train", is_first ? "starting" : "resuming",
                   {{"run", setup_.run_name},
                    {"step", std::to_string(state_.step)},
                    {"of", std::to_string(last_step())},
                    {"steps_lost", std::to_string(std::max<int64_t>(0, recorded - state_.step))}});
  first_step_ = saved_step_ = state_.step;
  first_samples_ = state_.samples;
  saved_at_ = setup_.clock->now();
  // A run that is done already, or was made shorter than it has come, asks for no more batches.
  if (state_.step < whole_length()) loader_ = make_loader();
  return {};
}

std::unique_ptr<Loader> Trainer::make_loader() const {
  return std::make_unique<Loader>(
      Loader::Setup{.dataset = data_.train.get(),
                    .plan = data_.plan.get(),
                    .seed = static_cast<uint64_t>(config_.train.seed),
                    .augment = config_.augment,
                    .options = config_.loader,
                    .start = {state_.step / steps_per_epoch(), state_.step % steps_per_epoch()},
                    .epochs = config_.train.epochs});
}

Status Trainer::resume(const ResumePoint& point) {
  const int64_t number = point.checkpoint.record.number;
  if (point.text.dataset_id != data_.train->id()) {
    return fail(Code::failed_precondition,
                fmt::format("the data is not what the run was trained on: its data set is {:.12}, "
                            "{} is {:.12}; give the run its own data, or --fresh",
                            point.text.dataset_id, data_.train->name(), data_.train->id()));
  }
  std::vector<Bytes> joined;
  ASSIGN_OR_RETURN(const Safetensors tensors,
                   gather_tensors(point.checkpoint.record.state, point.checkpoint.blobs, joined)
                       .at(fmt::format("read checkpoint {}", number)));
  RETURN_IF_ERROR(learner_->load(tensors).at(fmt::format("restore checkpoint {}", number)));
  state_ = point.text.state;
  state_is_saved_ = true;
  const std::string here = instruction_set();
  if (here != point.text.instruction_set) {
    setup_.log->warn("train",
                     "this CPU computes with other instructions than the run began with: the run "
                     "goes on, but its bits will differ from an uninterrupted one's",
                     {{"began", point.text.instruction_set}, {"here", here}});
  }
  return {};
}

Status Trainer::write_run_file() {
  return setup_.run->put(kRunFileObject, describe_run(config_).to_toml(OptionSet::Comments::no));
}

nlohmann::json Trainer::process_fields() const {
  return {{"step", state_.step},
          {"version", TERN_VERSION},
          {"recipe", config_.recipe},
          {"command", setup_.command},
          {"threads", config_.train.threads},
          {"instruction_set", instruction_set()},
          {"cpu", cpu_model()},
          {"host", setup_.me.host},
          {"pid", setup_.me.pid},
          {"token", setup_.me.token},
          {"dataset_id", data_.train->id()},
          {"samples_per_epoch", data_.train->size()},
          {"batch", config_.train.batch},
          {"epochs", config_.train.epochs},
          {"parameters", learner_->parameters()},
          {"total_steps", last_step()}};
}

// --- The loop -------------------------------------------------------------------------------

Result<Outcome> Trainer::run() {
  if (setup_.on_start) setup_.on_start(event(0));
  for (;;) {
    // An epoch that is complete is closed before anything else: evaluation, summary, checkpoint.
    // A notice in the middle of that leaves it open, and the resumed run closes it.
    if (epoch_is_complete_but_open()) RETURN_IF_ERROR(close_epoch());

    // Notices are acted on here, between steps, and nowhere else.
    if (const auto notice = setup_.board->notice()) return leave(*notice);

    if (auto reason = finished()) return finish(std::move(*reason));

    RETURN_IF_ERROR(train_one_step());

    // Once in a while a checkpoint, so that a kill without notice costs little; and a sign of life
    // for whoever might want to take the run over.
    RETURN_IF_ERROR(keep_the_run());
  }
}

Status Trainer::train_one_step() {
  const Nanoseconds start = setup_.clock->now();
  const Result<Batch> next = loader_->next(setup_.board->stop_token());
  // A notice came while data was awaited: the loop sees it next.
  if (!next.has_value() && next.error().code == Code::cancelled) return {};
  if (!next.has_value()) return next.error();
  const Batch& batch = *next;
  const double rate = learning_rate_at(
      config_.schedule, config_.optimizer.learning_rate,
      {.steps_per_epoch = steps_per_epoch(), .epochs = config_.train.epochs}, state_.step);
  ASSIGN_OR_RETURN(const StepResult result, learner_->step(batch, state_.step, rate));

  const int64_t samples = batch.positions.size();
  ++state_.step;
  state_.samples += samples;
  state_.epoch.samples += samples;
  state_.epoch.loss += result.loss * static_cast<double>(samples);
  state_.epoch.correct += result.correct;
  state_.train_seconds += to_seconds(setup_.clock->now() - start);
  state_is_saved_ = false;
  records_->step({.step = state_.step,
                  .epoch = batch.epoch,
                  .learning_rate = rate,
                  .loss = result.loss,
                  .top1 = static_cast<double>(result.correct) / static_cast<double>(samples),
                  .samples = samples});
  if (setup_.on_step) setup_.on_step(event(result.loss));
  return {};
}

Status Trainer::close_epoch() {
  const int64_t epoch = state_.epochs_closed + 1;
  const bool is_last = epoch >= config_.train.epochs;
  const int64_t every = config_.train.evaluate_every;
  std::optional<Evaluation> test;
  if (every > 0 && (is_last || epoch % every == 0)) {
    ASSIGN_OR_RETURN(test, evaluate_now());
    if (!test) return {};  // a notice came
    if (test->top1 > state_.best.top1) state_.best = {test->top1, state_.step};
  }
  const auto samples = static_cast<double>(std::max<int64_t>(1, state_.epoch.samples));
  const double loss = state_.epoch.loss / samples;
  const double top1 = static_cast<double>(state_.epoch.correct) / samples;
  records_->epoch(epoch, state_.step, loss, top1, test ? &*test : nullptr);
  setup_.log->info("train", fmt::format("epoch {} of {}", epoch, config_.train.epochs),
                   {{"loss", fmt::format("{:.4f}", loss)},
                    {"top1", fmt::format("{:.2f}%", 100 * top1)},
                    {"test_top1", test ? fmt::format("{:.2f}%", 100 * test->top1) : "-"}});
  state_.epochs_closed = epoch;
  state_.epoch = {};
  state_is_saved_ = false;
  return save("epoch");
}

// The accuracy at this moment; nothing if a notice interrupted it.
Result<std::optional<Evaluation>> Trainer::evaluate_now() {
  const Nanoseconds start = setup_.clock->now();
  ASSIGN_OR_RETURN(const std::optional<Evaluation> test,
                   evaluate(*learner_, *data_.test, config_, *setup_.board));
  if (!test) return test;
  records_->ledger("evaluation", {{"epoch", state_.step / steps_per_epoch()},
                                  {"step", state_.step},
                                  {"loss", test->loss},
                                  {"top1", test->top1},
                                  {"top5", test->top5},
                                  {"samples", test->samples},
                                  {"seconds", to_seconds(setup_.clock->now() - start)}});
  return test;
}

Status Trainer::keep_the_run() {
  if (setup_.clock->now() - saved_at_ >= config_.checkpoint.every) return save("cadence");
  const Status renewed = sequence_->renew_if_due();
  if (!renewed.has_value() && renewed.error().code != Code::aborted) {
    records_->warning("cannot renew the lease: " + renewed.error().to_string(), state_.step);
    return {};
  }
  return renewed;
}

Status Trainer::save(const char* why) {
  const Nanoseconds start = setup_.clock->now();
  std::vector<Bytes> blobs(1);
  ASSIGN_OR_RETURN(blobs[0], learner_->save());
  ASSIGN_OR_RETURN(std::string text, state_text(blobs));
  const bool is_best = state_.best.step == state_.step && state_.best.top1 >= 0;
  const Result<int64_t> number = sequence_->publish(std::move(text), blobs, is_best);
  saved_at_ = setup_.clock->now();
  if (!number.has_value()) {
    if (number.error().code == Code::aborted) return number.error();
    records_->warning(fmt::format("checkpoint failed, the run goes on with the one of step {}: {}",
                                  saved_step_, number.error().to_string()),
                      state_.step);
    return {};
  }
  saved_step_ = state_.step;
  state_is_saved_ = true;
  records_->ledger("checkpoint", {{"number", *number},
                                  {"step", state_.step},
                                  {"bytes", blobs[0].size()},
                                  {"seconds", to_seconds(setup_.clock->now() - start)},
                                  {"best", is_best},
                                  {"why", why}});
  if (const Status pruned = sequence_->prune(); !pruned.has_value()) {
    records_->warning("cannot remove old checkpoints: " + pruned.error().to_string(), state_.step);
  }
  return {};
}

// --- Ending ---------------------------------------------------------------------------------

Outcome outcome_of(const Notice& notice) {
  const bool is_preempt = notice.kind == NoticeKind::preempt;
  return Outcome{.status = is_preempt ? RunStatus::preempted : RunStatus::stopped,
                 .exit_code = is_preempt ? kExitPreempted : kExitStopped,
                 .reason = (is_preempt ? "notice by " : "by ") + notice.source};
}

Result<Outcome> Trainer::leave(const Notice& notice) {
  const bool is_preempt = notice.kind == NoticeKind::preempt;
  records_->ledger("notice", {{"notice", is_preempt ? "preempt" : "stop"},
                              {"source", notice.source},
                              {"step", state_.step}});
  setup_.log->info("train",
                   is_preempt ? "notice: this machine will go; saving" : "stopping: saving",
                   {{"source", notice.source}, {"step", std::to_string(state_.step)}});
  if (!state_is_saved_) RETURN_IF_ERROR(save("notice"));
  return outcome_of(notice);
}

Result<Outcome> Trainer::finish(std::string reason) {
  const bool epoch_was_evaluated = state_.step == state_.epochs_closed * steps_per_epoch();
  if (!epoch_was_evaluated && config_.train.evaluate_every > 0) {
    // For the report only: it must not become part of the state, which goes on with a larger
    // --steps as if this stop had not been.
    ASSIGN_OR_RETURN(const std::optional<Evaluation> test, evaluate_now());
    if (!test) return leave(*setup_.board->notice());
  }
  if (!state_is_saved_) RETURN_IF_ERROR(save("end"));
  return Outcome{.status = RunStatus::done, .exit_code = kExitDone, .reason = std::move(reason)};
}

Outcome Trainer::failed(const Error& error) {
  return Outcome{.status = RunStatus::failed,
                 .exit_code = exit_code_of(error.code),
                 .reason = error.to_string()};
}

// What every end has in common: the record of it, the weights, the report, the lease given back.
void Trainer::close(Outcome& outcome) {
  outcome.step = state_.step;
  outcome.steps_lost = state_is_saved_ ? 0 : state_.step - saved_step_;
  records_->ledger("end", {{"status", status_name(outcome.status)},
                           {"step", state_.step},
                           {"reason", outcome.reason},
                           {"exit_code", outcome.exit_code},
                           {"wall_seconds", to_seconds(setup_.clock->now() - began_)},
                           {"samples", state_.samples - first_samples_},
                           {"steps_lost", outcome.steps_lost}});
  const auto warn = [&](const char* what, const Error& error) {
    setup_.log->warn("train", what, {{"cause", error.to_string()}});
  };
  if (outcome.status != RunStatus::failed) {
    const Result<Bytes> weights = learner_->weights();
    const Status put =
        weights.has_value() ? setup_.run->put(kWeightsObject, *weights) : Status(weights.error());
    if (!put.has_value()) warn("cannot write model.safetensors", put.error());
  }
  if (const Status released = sequence_->release(); !released.has_value()) {
    warn("cannot give back the lease; the next process may have to wait for it", released.error());
  }
  const Result<RunReport> report = read_report(*setup_.run, setup_.run_name);
  const Status put = report.has_value()
                         ? setup_.run->put(kReportObject, report_json(*report).dump(2) + "\n")
                         : Status(report.error());
  if (!put.has_value()) warn("cannot write report.json", put.error());
}

Outcome Trainer::train_and_close() {
  const Result<Outcome> ended = run();
  loader_.reset();
  Outcome outcome = ended.has_value() ? *ended : failed(ended.error());
  // Whoever has lost the run writes nothing more into it: the ledger is its new holder's.
  if (!ended.has_value() && ended.error().code == Code::aborted) {
    outcome.step = state_.step;
    return outcome;
  }
  close(outcome);
  return outcome;
}

// --- Small things ---------------------------------------------------------------------------

int64_t Trainer::last_step() const {
  const int64_t steps = config_.train.steps;
  return steps > 0 ? std::min(steps, whole_length()) : whole_length();
}

StepEvent Trainer::event(double loss) const {
  const int64_t epochs = last_step() / steps_per_epoch();
  return {.step = state_.step,
          .total_steps = last_step(),
          .samples = state_.samples,
          .total_samples = epochs * data_.train->size() +
                           (last_step() % steps_per_epoch()) * config_.train.batch,
          .epoch = state_.step / steps_per_epoch(),
          .loss = loss};
}

bool Trainer::epoch_is_complete_but_open() const {
  return state_.step > 0 && state_.step % steps_per_epoch() == 0 &&
         state_.epochs_closed < state_.step / steps_per_epoch();
}

std::optional<std::string> Trainer::finished() const {
  if (state_.step >= whole_length()) return fmt::format("all {} epochs", config_.train.epochs);
  if (state_.step >= last_step()) return fmt::format("step {} as asked", last_step());
  const Milliseconds limit = config_.train.time_limit;
  if (limit.count() > 0 && state_.train_seconds >= to_seconds(limit)) {
    return fmt::format("time limit of {}", format_duration(limit));
  }
  return std::nullopt;
}

Result<std::string> Trainer::state_text(const std::vector<Bytes>& blobs) {
  RunConfig copy = config_;
  return format_state({.state = state_,
                       .config_toml = describe_run(copy).to_toml(OptionSet::Comments::no),
                       .version = TERN_VERSION,
                       .dataset_id = data_.train->id(),
                       .instruction_set = instruction_set(),
                       .threads = config_.train.threads,
                       .steps_per_epoch = steps_per_epoch()},
                      blobs);
}

}  // namespace

Result<Outcome> train(const TrainerSetup& setup) {
  // Everything that can be refused is refused before the run is touched.
  RunConfig config = setup.config;
  ASSIGN_OR_RETURN(RunData data, open_run_data(config));
  RETURN_IF_ERROR(agree_with_run_folder(config, *setup.run));

  Trainer trainer(setup, std::move(config), std::move(data));
  if (const Status taken = trainer.take_the_run(); !taken.has_value()) {
    const std::optional<Notice> notice = setup.board->notice();
    // Told to leave while another may still hold the run: nothing was begun, nothing is lost.
    if (taken.error().code == Code::cancelled && notice) return outcome_of(*notice);
    return taken.error();
  }
  if (const Status ready = trainer.restore_or_start(); !ready.has_value()) {
    trainer.give_back();
    return ready.error();
  }
  return trainer.train_and_close();
}

}  // namespace tern
