#include "train/trainer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "train/evaluate.h"
#include "train/schedule.h"
#include "train/trainer_process.h"

namespace tern {
namespace {

constexpr int64_t kRollBacksMax = 3;

}  // namespace

namespace {

Result<Outcome> train_with_ranks(const TrainerSetup& setup, RunConfig config, RunData data) {
  Trainer trainer(setup, std::move(config), std::move(data));
  const Status ready = trainer.begin_together();
  if (ready.has_value()) return trainer.train_and_close();
  trainer.give_back();
  setup.ranks->leave(ready.error().message);
  const std::optional<Notice> notice = setup.board->notice();
  if (ready.error().code != Code::cancelled || !notice) return ready.error();
  Outcome outcome = outcome_of(*notice);
  outcome.has_led = trainer.leads();
  return outcome;
}

}  // namespace

Result<Outcome> train(const TrainerSetup& setup, RunData data) {
  RunConfig config = setup.config;
  if (setup.ranks != nullptr) return train_with_ranks(setup, std::move(config), std::move(data));
  // What can be refused is refused before the run is touched.
  RETURN_IF_ERROR(agree_with_run_folder(config, *setup.run));

  Trainer trainer(setup, std::move(config), std::move(data));
  if (const Status taken = trainer.take_the_run(setup.board->stop_token()); !taken.has_value()) {
    trainer.give_back();
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

Result<Outcome> Trainer::run() {
  is_begun_ = true;
  if (leads_ && setup_.on_start) setup_.on_start(event(state_.step, 0));
  for (;;) {
    Result<std::optional<Outcome>> ended = go_on();
    if (ended.has_value() && ended->has_value()) return std::move(**ended);
    if (ended.has_value()) continue;
    Error error = ended.error();
    if (divergence_ && !is_group_over(error)) {
      if (config_.train.on_divergence != "roll_back" || state_.roll_backs >= kRollBacksMax) {
        note_divergence(*divergence_, "stopped");
        return *divergence_;
      }
      const Status restored = roll_back();
      if (restored.has_value()) continue;
      error = restored.error();
    }
    if (!is_group_over(error)) return error;
    divergence_.reset();
    const Status formed = regroup();
    if (formed.has_value()) continue;
    const std::optional<Notice> notice = setup_.board->notice();
    if (formed.error().code == Code::cancelled && notice) return leave_alone(*notice);
    return formed.error();
  }
}

// From one step to the next; an outcome once there is none.
Result<std::optional<Outcome>> Trainer::go_on() {
  // An epoch that is complete is closed before anything else: evaluation, summary, checkpoint.
  // A notice in the middle of that leaves it open, and the resumed run closes it.
  if (epoch_is_complete_but_open()) RETURN_IF_ERROR(close_epoch());

  // Notices are acted on here, between steps, and nowhere else.
  ASSIGN_OR_RETURN(std::optional<Outcome> left, is_together() ? heed_words() : heed_notices());
  if (left) return left;

  if (auto reason = finished()) {
    ASSIGN_OR_RETURN(Outcome outcome, finish(std::move(*reason)));
    return std::optional<Outcome>(std::move(outcome));
  }

  RETURN_IF_ERROR(is_together() ? train_together() : train_one_step());

  // Once in a while a checkpoint, so that a kill without notice costs little; and a sign of life
  // for whoever might want to take the run over.
  RETURN_IF_ERROR(keep_the_run());
  return std::optional<Outcome>();
}

Result<std::optional<Outcome>> Trainer::heed_notices() {
  if (const auto notice = setup_.board->notice()) {
    ASSIGN_OR_RETURN(Outcome outcome, leave(*notice));
    return std::optional<Outcome>(std::move(outcome));
  }
  if (const auto advice = setup_.board->take_advice()) RETURN_IF_ERROR(heed(*advice));
  return std::optional<Outcome>();
}

Status Trainer::train_one_step() {
  const Nanoseconds start = setup_.clock->now();
  if (loader_ == nullptr || loader_phase_ != timeline_.at(state_.step).phase) make_loader();
  spans_.enter(Span::queue);
  Result<Batch> next = loader_->next(setup_.board->stop_token());
  spans_.enter(Span::other);
  // A notice came while data was awaited: the loop sees it next.
  if (!next.has_value() && next.error().code == Code::cancelled) return {};
  if (!next.has_value()) return next.error();
  const Batch& batch = *next;
  spans_.enter(Span::copy);
  spans_.reassign(Span::queue, Span::fetch, batch.waited.fetch);
  spans_.reassign(Span::queue, Span::decode, batch.waited.decode);
  spans_.reassign(Span::queue, Span::augment, batch.waited.augment);
  for (const BadRead& bad : batch.bad) note_bad_sample(bad, *phase_at(state_.step).train);
  if (batch.samples() == 0) return pass_over(batch);
  empty_batches_ = 0;
  RETURN_IF_ERROR(learner_->put(batch));

  spans_.enter(Span::compute);
  const double rate = state_.rate_factor * learning_rate_at(config_, timeline_, state_.step);
  open_steps_.push_back({.step = state_.step,
                         .epoch = batch.epoch,
                         .samples = batch.samples(),
                         .learning_rate = rate});
  const Result<StepResults> results = learner_->step(state_.step, rate);
  spans_.enter(Span::other);
  if (!results.has_value()) {
    if (results.error().code == Code::out_of_range) divergence_ = results.error();
    return results.error();
  }
  ++state_.step;
  state_.samples += batch.samples();
  state_.train_seconds += to_seconds(setup_.clock->now() - start);
  state_is_saved_ = false;
  loader_->recycle(std::move(*next));  // the device has its copy
  return note_results(*results);
}

// A batch of which no sample could be read is no step of the learner's, but its place in the order
// is taken.
Status Trainer::pass_over(const Batch& batch) {
  spans_.enter(Span::other);
  constexpr int64_t kEmptyMax = 100;
  if (++empty_batches_ >= std::min(kEmptyMax, timeline_.steps_per_epoch_at(state_.step) + 1)) {
    return fail(Code::corrupt,
                fmt::format("no sample of the last {} batches could be read, the last of them {}; "
                            "check the data with `tern data verify`",
                            empty_batches_, batch.bad.empty() ? "" : batch.bad.back().where));
  }
  RETURN_IF_ERROR(finish_steps());
  ++state_.step;
  state_is_saved_ = false;
  return {};
}

// Each sample once, however often an epoch comes past it.
void Trainer::note_bad_sample(const BadRead& bad, const Dataset& dataset) {
  if (!bad_samples_.emplace(dataset.id(), bad.sample).second) return;
  const bool is_replaced = bad.replaced_by >= 0;
  setup_.log->warn("train", fmt::format("bad sample {}", is_replaced ? "replaced" : "skipped"),
                   {{"sample", bad.where}, {"cause", bad.cause}});
  if (!leads_) tell_bad_sample(bad, dataset);
  records_->ledger("bad_sample", {{"step", state_.step},
                                  {"sample", bad.where},
                                  {"cause", bad.cause},
                                  {"done", is_replaced ? "replaced" : "skipped"}});
}

// What the device has told of its steps: on a CPU of the last one, on a GPU of some before it.
Status Trainer::note_results(const StepResults& results) {
  for (const StepResult& result : results) {
    const OpenStep step = open_steps_.front();
    open_steps_.pop_front();
    TERN_CHECK(step.step == result.step);
    RETURN_IF_ERROR(watch_loss(result));
    const auto samples = static_cast<double>(step.samples);
    // The loss of a step that overflowed and was skipped may be no number.
    if (!result.is_skipped) {
      state_.epoch.samples += step.samples;
      state_.epoch.loss += result.loss * samples;
      state_.epoch.correct += result.correct;
    }
    if (step.step < recorded_step_) continue;  // the leader before us has written it
    records_->step({.step = step.step + 1,
                    .epoch = step.epoch,
                    .learning_rate = step.learning_rate,
                    .loss = result.loss,
                    .top1 = static_cast<double>(result.correct) / samples,
                    .samples = step.samples,
                    .spans = spans_.take(),
                    .communication = communication_});
    if (leads_ && setup_.on_step) setup_.on_step(event(step.step + 1, result.loss));
  }
  return {};
}

// Takes a loss into its moving mean; an error if it is far above that.
Status Trainer::watch_loss(const StepResult& result) {
  if (result.is_skipped) return {};
  constexpr double kNewest = 0.02;  // its weight in the mean: about the last 50 steps
  constexpr int64_t kFirstSteps = 20;
  const double limit = config_.train.explosion * state_.loss_mean;
  if (config_.train.explosion > 0 && result.step >= kFirstSteps && result.loss > limit) {
    divergence_ =
        fail(Code::out_of_range,
             fmt::format("the loss is {:.4g} at step {}, more than {} times its mean of "
                         "{:.4g}: training diverged; begin anew (--fresh, or another --run) with a "
                         "smaller optimizer.learning_rate, or set train.on_divergence=roll_back",
                         result.loss, result.step + 1, config_.train.explosion, state_.loss_mean));
    return *divergence_;
  }
  state_.loss_mean = state_.loss_mean < 0
                         ? result.loss
                         : state_.loss_mean + kNewest * (result.loss - state_.loss_mean);
  return {};
}

// Before anything looks at the state as a whole.
Status Trainer::finish_steps() {
  Result<StepResults> results = StepResults{};
  {
    const SpanScope span(spans_, Span::compute);
    results = learner_->finish_steps();
  }
  if (!results.has_value()) {
    if (results.error().code == Code::out_of_range) divergence_ = results.error();
    return results.error();
  }
  return note_results(*results);
}

Status Trainer::close_epoch() {
  RETURN_IF_ERROR(finish_steps());
  const int64_t epoch = state_.epochs_closed + 1;
  std::optional<Evaluation> test;
  const BestSoFar best_before = state_.best;
  if (evaluation_is_due_after(epoch)) {
    ASSIGN_OR_RETURN(test, evaluate_now(/*is_last=*/epoch >= config_.train.epochs));
    if (!test) return {};  // a notice came
    if (test->top1 > state_.best.top1) state_.best = {test->top1, state_.step};
    if (newest_accuracy_) note_target(*newest_accuracy_);
  }
  const auto samples = static_cast<double>(std::max<int64_t>(1, state_.epoch.samples));
  const double loss = state_.epoch.loss / samples;
  const double top1 = static_cast<double>(state_.epoch.correct) / samples;
  records_->epoch(epoch, state_.step, loss, top1, test ? &*test : nullptr);
  if (leads_)
    setup_.log->info("train", fmt::format("epoch {} of {}", epoch, config_.train.epochs),
                     {{"loss", fmt::format("{:.4f}", loss)},
                      {"top1", fmt::format("{:.2f}%", 100 * top1)},
                      {"test_top1", test ? fmt::format("{:.2f}%", 100 * test->top1) : "-"}});
  state_.epochs_closed = epoch;
  state_.epoch = {};
  state_is_saved_ = false;
  RETURN_IF_ERROR(save("epoch"));
  bool is_saved = state_is_saved_;
  if (is_together()) {
    ASSIGN_OR_RETURN(is_saved, agree_on_epoch());
  }
  // Weights that no checkpoint holds cannot be the best: a later, lesser one may.
  if (!is_saved) state_.best = best_before;
  if (leads_ && state_.best.step != best_before.step) write_best();
  return {};
}

// The accuracy at this moment, told to the ledger; nothing if a notice interrupted it.
Result<std::optional<Evaluation>> Trainer::evaluate_now(bool is_last) {
  const SpanScope span(spans_, Span::evaluation);
  std::optional<StallWatch::Scope> scope;
  if (is_together()) scope.emplace(*watch_, work_of(RankWork::evaluation, ""));
  const Nanoseconds start = setup_.clock->now();
  ASSIGN_OR_RETURN(const std::optional<Evaluation> test, evaluate_quietly());
  if (!test) {
    words_.clear();  // a rank that did not say so before has a notice
    return test;
  }
  nlohmann::json fields = {{"epoch", timeline_.epochs_after(state_.step)},
                           {"step", state_.step},
                           {"loss", test->loss},
                           {"top1", test->top1},
                           {"top5", test->top5},
                           {"samples", test->samples},
                           {"seconds", to_seconds(setup_.clock->now() - start)}};
  // A thousand numbers an epoch would be most of the ledger.
  constexpr size_t kClassesMax = 100;
  if (is_last || test->class_top1.size() <= kClassesMax) fields["class_top1"] = test->class_top1;
  records_->ledger("evaluation", fields);
  if (leads_) newest_accuracy_ = write_accuracy_table();
  return test;
}

// With the data and the image size of the phase that the last step belonged to.
Result<std::optional<Evaluation>> Trainer::evaluate_quietly() {
  const PhaseData& data = phase_at(std::max<int64_t>(0, state_.step - 1));
  return evaluate(
      *learner_, *data.test, config_in(config_, data.phase), *setup_.board, *setup_.clock,
      [this] { return show_sign_of_life(); },
      [this, &data](const BadRead& bad) { note_bad_sample(bad, *data.test); },
      is_together() ? group_.get() : nullptr);
}

// Once: when train.target_top1 and train.target_top5, those that are set, are both reached.
void Trainer::note_target(const AccuracyRow& row) {
  const AccuracyTarget target{.top1 = config_.train.target_top1, .top5 = config_.train.target_top5};
  if (state_.has_target || !reaches(target, row)) return;
  state_.has_target = true;
  nlohmann::json fields = {{"epoch", timeline_.epochs_after(state_.step)},
                           {"step", state_.step},
                           {"hours", row.hours},
                           {"top1", row.top1},
                           {"top5", row.top5}};
  if (row.cost_usd) fields["cost_usd"] = *row.cost_usd;
  records_->ledger("target", fields);
  setup_.log->info("train", "target reached",
                   {{"top1", fmt::format("{:.2f}%", 100 * row.top1)},
                    {"top5", fmt::format("{:.2f}%", 100 * row.top5)},
                    {"hours", fmt::format("{:.3f}", row.hours)}});
}

Status Trainer::keep_the_run() {
  if (!leads_) return {};
  if (setup_.clock->now() - saved_at_ >= config_.checkpoint.every) return save("cadence");
  return show_sign_of_life();
}

Status Trainer::show_sign_of_life() {
  if (!leads_) return {};
  const Status renewed = sequence_->renew_if_due();
  if (!renewed.has_value() && renewed.error().code != Code::aborted) {
    records_->warning("cannot renew the lease: " + renewed.error().to_string(), state_.step);
    return {};
  }
  return renewed;
}

Status Trainer::save(const char* why) {
  RETURN_IF_ERROR(finish_steps());
  if (!leads_) {
    state_is_saved_ = true;  // as far as this rank is concerned
    return {};
  }
  const SpanScope span(spans_, Span::checkpoint);
  std::optional<StallWatch::Scope> scope;
  if (is_together()) scope.emplace(*watch_, work_of(RankWork::checkpoint, ""));
  const Nanoseconds start = setup_.clock->now();
  std::vector<Bytes> blobs(1);
  ASSIGN_OR_RETURN(blobs[0], learner_->save());
  ASSIGN_OR_RETURN(std::string text, state_text(blobs));
  const bool is_best = state_.best.step == state_.step && state_.best.top1 >= 0;
  records_->sync();  // no checkpoint holds steps that the metrics have lost
  const Result<int64_t> number = sequence_->publish(std::move(text), blobs, is_best);
  if (!number.has_value()) {
    if (number.error().code == Code::aborted) return number.error();
    save_error_ = number.error();
    records_->warning(fmt::format("checkpoint failed, the run goes on {}: {}",
                                  saved_step_ ? fmt::format("with the one of step {}", *saved_step_)
                                              : std::string("without one"),
                                  number.error().to_string()),
                      state_.step);
    saved_at_ = setup_.clock->now();
    return {};
  }
  saved_step_ = state_.step;
  state_is_saved_ = true;
  save_error_.reset();
  records_->ledger("checkpoint", {{"number", *number},
                                  {"step", state_.step},
                                  {"bytes", blobs[0].size()},
                                  {"seconds", to_seconds(setup_.clock->now() - start)},
                                  {"best", is_best},
                                  {"why", why}});
  if (const Status pruned = sequence_->prune(); !pruned.has_value()) {
    records_->warning("cannot remove old checkpoints: " + pruned.error().to_string(), state_.step);
  }
  // From here, so that steps are taken also where saving is slower than checkpoint.every.
  saved_at_ = setup_.clock->now();
  return {};
}

// --- Small things ---------------------------------------------------------------------------

int64_t Trainer::last_step() const {
  const int64_t steps = config_.train.steps;
  return steps > 0 ? std::min(steps, timeline_.steps()) : timeline_.steps();
}

// Trained on when `step` steps are done, if none is bad.
int64_t Trainer::samples_until(int64_t step) const {
  int64_t samples = 0;
  for (const PhaseData& data : data_.phases) {
    const int64_t per_epoch = std::min(data.train->size(), data.steps_per_epoch * data.phase.batch);
    const int64_t steps = std::min(step, data.phase.epochs() * data.steps_per_epoch);
    samples +=
        steps / data.steps_per_epoch * per_epoch + steps % data.steps_per_epoch * data.phase.batch;
    step -= steps;
  }
  return samples;
}

StepEvent Trainer::event(int64_t step, double loss) const {
  return {.step = step,
          .total_steps = last_step(),
          .samples = state_.samples,
          .total_samples = samples_until(last_step()),
          .epoch = timeline_.epochs_after(step),
          .loss = loss};
}

bool Trainer::evaluation_is_due_after(int64_t epoch) const {
  const int64_t every = config_.train.evaluate_every;
  return every > 0 && (epoch % every == 0 || epoch >= config_.train.epochs);
}

bool Trainer::epoch_is_complete_but_open() const {
  return state_.step > 0 && timeline_.at(state_.step).batch == 0 &&
         state_.epochs_closed < timeline_.epochs_after(state_.step);
}

std::optional<std::string> Trainer::finished() const {
  if (state_.step >= timeline_.steps()) return fmt::format("all {} epochs", config_.train.epochs);
  if (state_.step > last_step()) {
    return fmt::format("it had already passed step {}, where it was to stop", last_step());
  }
  if (state_.step == last_step()) return fmt::format("step {} as asked", last_step());
  if (config_.train.stop_at_target && state_.has_target) return "the target is reached";
  const int64_t patience = config_.train.early_stop;
  const int64_t since_best = state_.epochs_closed - timeline_.epochs_after(state_.best.step);
  if (patience > 0 && state_.best.top1 >= 0 && since_best >= patience) {
    return fmt::format("no better than {:.2f}% for {} epochs", 100 * state_.best.top1, since_best);
  }
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
                       .dataset_id = data_.id,
                       .instruction_set = instruction_set(),
                       .fingerprint = fingerprint_,
                       .threads = config_.train.threads,
                       .steps_per_epoch = timeline_.steps_per_epoch_at(state_.step),
                       .epoch = timeline_.at(state_.step).epoch,
                       .batch = timeline_.at(state_.step).batch},
                      blobs);
}

}  // namespace tern
