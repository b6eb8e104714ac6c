// How a process begins: it takes the run, and restores or starts it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "train/machine.h"
#include "train/trainer_process.h"

namespace tern {

Status Trainer::take_the_run() {
  Sequence::Setup setup{.store = &checkpoints_,
                        .clock = setup_.clock,
                        .me = setup_.me,
                        .lease = config_.lease,
                        .checkpoint = config_.checkpoint};
  setup.on_wait = log_waiting_for_holder(*setup_.log);
  ASSIGN_OR_RETURN(sequence_, Sequence::take(std::move(setup), setup_.board->stop_token()));
  return log_to_run_folder(*setup_.run, *setup_.log);
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
  ASSIGN_OR_RETURN(records_, RunRecords::open(*setup_.run, *setup_.clock, *setup_.log,
                                              {.price_microusd_per_hour = price > 0 ? price : -1,
                                               .lease = sequence_->lease_number()}));
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
  saved_step_ = state_.step;
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

}  // namespace tern
