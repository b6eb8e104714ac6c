#include "train/trainer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "train/evaluate.h"
#include "train/schedule.h"
#include "train/trainer_process.h"

namespace tern {

Result<Outcome> train(const TrainerSetup& setup, RunData data) {
  // What can be refused is refused before the run is touched.
  RunConfig config = setup.config;
  RETURN_IF_ERROR(agree_with_run_folder(config, *setup.run));

  Trainer trainer(setup, std::move(config), std::move(data));
  if (const Status taken = trainer.take_the_run(); !taken.has_value()) {
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
  if (setup_.on_start) setup_.on_start(event(state_.step, 0));
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
  for (const BadRead& bad : batch.bad) note_bad_sample(bad, *data_.train);
  RETURN_IF_ERROR(learner_->put(batch));

  spans_.enter(Span::compute);
  const double rate = learning_rate_at(
      config_.schedule, config_.optimizer.learning_rate,
      {.steps_per_epoch = steps_per_epoch(), .epochs = config_.train.epochs}, state_.step);
  open_steps_.push_back({.step = state_.step,
                         .epoch = batch.epoch,
                         .samples = batch.samples(),
                         .learning_rate = rate});
  ASSIGN_OR_RETURN(const StepResults results, learner_->step(state_.step, rate));

  spans_.enter(Span::other);
  ++state_.step;
  state_.samples += batch.samples();
  state_.train_seconds += to_seconds(setup_.clock->now() - start);
  state_is_saved_ = false;
  loader_->recycle(std::move(*next));  // the device has its copy
  return note_results(results);
}

// Each sample once, however often an epoch comes past it.
void Trainer::note_bad_sample(const BadRead& bad, const Dataset& dataset) {
  if (!bad_samples_.emplace(dataset.id(), bad.sample).second) return;
  const bool is_replaced = bad.replaced_by >= 0;
  setup_.log->warn("train", fmt::format("bad sample {}", is_replaced ? "replaced" : "skipped"),
                   {{"sample", bad.where}, {"cause", bad.cause}});
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
    const auto samples = static_cast<double>(step.samples);
    state_.epoch.samples += step.samples;
    state_.epoch.loss += result.loss * samples;
    state_.epoch.correct += result.correct;
    records_->step({.step = step.step + 1,
                    .epoch = step.epoch,
                    .learning_rate = step.learning_rate,
                    .loss = result.loss,
                    .top1 = static_cast<double>(result.correct) / samples,
                    .samples = step.samples,
                    .spans = spans_.take()});
    if (setup_.on_step) setup_.on_step(event(step.step + 1, result.loss));
  }
  return {};
}

// Before anything looks at the state as a whole.
Status Trainer::finish_steps() {
  Result<StepResults> results = StepResults{};
  {
    const SpanScope span(spans_, Span::compute);
    results = learner_->finish_steps();
  }
  if (!results.has_value()) return results.error();
  return note_results(*results);
}

Status Trainer::close_epoch() {
  RETURN_IF_ERROR(finish_steps());
  const int64_t epoch = state_.epochs_closed + 1;
  std::optional<Evaluation> test;
  const BestSoFar best_before = state_.best;
  if (evaluation_is_due_after(epoch)) {
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
  RETURN_IF_ERROR(save("epoch"));
  // Weights that no checkpoint holds cannot be the best: a later, lesser one may.
  if (!state_is_saved_) state_.best = best_before;
  return {};
}

// The accuracy at this moment; nothing if a notice interrupted it.
Result<std::optional<Evaluation>> Trainer::evaluate_now() {
  const SpanScope span(spans_, Span::evaluation);
  const Nanoseconds start = setup_.clock->now();
  ASSIGN_OR_RETURN(
      const std::optional<Evaluation> test,
      evaluate(
          *learner_, *data_.test, config_, *setup_.board, [this] { return show_sign_of_life(); },
          [this](const BadRead& bad) { note_bad_sample(bad, *data_.test); }));
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
  return show_sign_of_life();
}

Status Trainer::show_sign_of_life() {
  const Status renewed = sequence_->renew_if_due();
  if (!renewed.has_value() && renewed.error().code != Code::aborted) {
    records_->warning("cannot renew the lease: " + renewed.error().to_string(), state_.step);
    return {};
  }
  return renewed;
}

Status Trainer::save(const char* why) {
  RETURN_IF_ERROR(finish_steps());
  const SpanScope span(spans_, Span::checkpoint);
  const Nanoseconds start = setup_.clock->now();
  std::vector<Bytes> blobs(1);
  ASSIGN_OR_RETURN(blobs[0], learner_->save());
  ASSIGN_OR_RETURN(std::string text, state_text(blobs));
  const bool is_best = state_.best.step == state_.step && state_.best.top1 >= 0;
  const Result<int64_t> number = sequence_->publish(std::move(text), blobs, is_best);
  saved_at_ = setup_.clock->now();
  if (!number.has_value()) {
    if (number.error().code == Code::aborted) return number.error();
    save_error_ = number.error();
    records_->warning(fmt::format("checkpoint failed, the run goes on {}: {}",
                                  saved_step_ ? fmt::format("with the one of step {}", *saved_step_)
                                              : std::string("without one"),
                                  number.error().to_string()),
                      state_.step);
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
  return {};
}

// --- Small things ---------------------------------------------------------------------------

int64_t Trainer::last_step() const {
  const int64_t steps = config_.train.steps;
  return steps > 0 ? std::min(steps, whole_length()) : whole_length();
}

StepEvent Trainer::event(int64_t step, double loss) const {
  const int64_t epochs = last_step() / steps_per_epoch();
  return {.step = step,
          .total_steps = last_step(),
          .samples = state_.samples,
          .total_samples = epochs * data_.train->size() +
                           (last_step() % steps_per_epoch()) * config_.train.batch,
          .epoch = step / steps_per_epoch(),
          .loss = loss};
}

bool Trainer::evaluation_is_due_after(int64_t epoch) const {
  const int64_t every = config_.train.evaluate_every;
  return every > 0 && (epoch % every == 0 || epoch >= config_.train.epochs);
}

bool Trainer::epoch_is_complete_but_open() const {
  return state_.step > 0 && state_.step % steps_per_epoch() == 0 &&
         state_.epochs_closed < state_.step / steps_per_epoch();
}

std::optional<std::string> Trainer::finished() const {
  if (state_.step >= whole_length()) return fmt::format("all {} epochs", config_.train.epochs);
  if (state_.step > last_step()) {
    return fmt::format("it had already passed step {}, where it was to stop", last_step());
  }
  if (state_.step == last_step()) return fmt::format("step {} as asked", last_step());
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
                       .steps_per_epoch = steps_per_epoch()},
                      blobs);
}

}  // namespace tern
