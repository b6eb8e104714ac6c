// How a process begins: it takes the run, and restores or starts it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "loader/shuffle_quality.h"
#include "report/class_names.h"
#include "report/machine_json.h"
#include "train/evaluate.h"
#include "train/gpu_sample.h"
#include "train/learner_setup.h"
#include "train/trainer_process.h"
#include "train/weights_file.h"

namespace tern {

Status Trainer::take_the_run(std::stop_token stop) {
  Sequence::Setup setup{.store = &checkpoints_,
                        .clock = setup_.clock,
                        .me = setup_.me,
                        .lease = config_.lease,
                        .checkpoint = config_.checkpoint,
                        .takes_from_own_group = generation_.may_take_over};
  setup.me.group = generation_.group_id;
  setup.on_wait = log_waiting_for_holder(*setup_.log);
  ASSIGN_OR_RETURN(sequence_, Sequence::take(std::move(setup), std::move(stop)));
  return log_to_run_folder(*setup_.run, *setup_.log);
}

Status Trainer::restore_or_start() {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(std::optional<ResumePoint> point, find_resume_point(checkpoints_, warnings));
  const bool is_damaged = !warnings.empty();
  ASSIGN_OR_RETURN(AccuracyHistory accuracy, read_past(/*has_checkpoint=*/point.has_value()));
  const bool is_branch = !point && setup_.from.has_value();
  if (is_branch) {
    ASSIGN_OR_RETURN(point, find_branch());
  } else if (point) {
    // The checkpoint's own copy of the options decides; run.toml may have been lost or edited.
    ASSIGN_OR_RETURN(const auto changes, agree_with_recorded(config_, point->text.config_toml));
    for (const OptionChange& change : changes) {
      setup_.log->info("train", "option changed since the checkpoint",
                       {{"key", change.key}, {"before", change.before}, {"now", change.after}});
    }
  }
  rate_shuffle();
  RETURN_IF_ERROR(fill_in_config());
  watch_gpu();
  name_other_processes(warnings);
  ASSIGN_OR_RETURN(const Learner::Setup learner, setup_of_learner());
  warn_of_emulation(learner.precision, warnings);
  ASSIGN_OR_RETURN(fingerprint_, fingerprint_of(learner));
  if (point) RETURN_IF_ERROR(check_arithmetic(point->text, warnings));
  RETURN_IF_ERROR(make_learner());
  RETURN_IF_ERROR(open_records(std::move(accuracy)));
  ASSIGN_OR_RETURN(const int64_t recorded, last_recorded_step(*setup_.run));

  if (point) RETURN_IF_ERROR(restore(*point));
  nlohmann::json fields = process_fields();
  if (is_branch) {
    fields["from"] = become_branch(*point);
  } else if (point) {
    fields["checkpoint"] = point->checkpoint.record.number;
  }
  const bool is_first = (!point || is_branch) && recorded == 0 && !is_damaged;
  if (!is_first) fields["steps_lost"] = std::max<int64_t>(0, recorded - state_.step);
  RETURN_IF_ERROR(write_run_file());
  records_->ledger(is_first ? "start" : "resume", fields);
  records_->process_begins(state_.step);
  for (const std::string& warning : warnings) records_->warning(warning, state_.step);
  if (is_damaged && (!point || is_branch)) {
    records_->warning(fmt::format("no checkpoint is whole: beginning again {}; the damaged files "
                                  "are kept",
                                  is_branch ? "from " + setup_.from->to_string() : "at step 0"),
                      state_.step);
  }
  setup_.log->info("train", is_first ? "starting" : "resuming",
                   {{"run", setup_.run_name},
                    {"step", std::to_string(state_.step)},
                    {"of", std::to_string(last_step())},
                    {"steps_lost", std::to_string(std::max<int64_t>(0, recorded - state_.step))}});
  if (point && !is_branch) saved_step_ = state_.step;
  first_samples_ = state_.samples;
  saved_at_ = setup_.clock->now();
  watch_system();
  RETURN_IF_ERROR(write_class_names());
  // From here on the branch needs nothing of the run it came from.
  if (is_branch) RETURN_IF_ERROR(save("branch"));
  if (!point) RETURN_IF_ERROR(begin_with_given_weights());
  // A run that is done already, or was made shorter than it has come, asks for no more batches.
  if (state_.step < timeline_.steps()) make_loader();
  return {};
}

Status Trainer::open_records(AccuracyHistory accuracy) {
  const auto price = static_cast<int64_t>(config_.train.price * 1e6 + 0.5);
  ASSIGN_OR_RETURN(records_, RunRecords::open(*setup_.run, *setup_.clock, *setup_.log,
                                              {.price_microusd_per_hour = price > 0 ? price : -1,
                                               .lease = sequence_->lease_number(),
                                               .accuracy = std::move(accuracy)}));
  return {};
}

// Said at every start, so that a windowed order is never taken for a full one.
void Trainer::rate_shuffle() {
  const PhaseData& data = phase_at(state_.step);
  const ShuffleQuality quality = shuffle_quality(*data.plan, *data.train);
  shuffle_quality_ = quality.ratio;
  setup_.log->info("train", describe_shuffle_quality(quality, config_.data.shuffle));
}

// What the run file left to the machine or to the data; fixed from here on.
Status Trainer::fill_in_config() {
  const Dataset& data = *data_.first().train;
  if (config_.train.threads == 0) config_.train.threads = setup_.cores;
  if (config_.data.classes == 0) config_.data.classes = data.classes();
  if (config_.model.mean.empty()) config_.model.mean = data.mean();
  if (config_.model.stddev.empty()) config_.model.stddev = data.stddev();
  if (!config_.model.mean.empty() && !config_.model.stddev.empty()) return {};
  return fail(Code::invalid,
              fmt::format("{} has no recorded mean and deviation of its pixels; set model.mean and "
                          "model.stddev, or import it with `tern data import`",
                          data.name()));
}

// For the phase that the next step belongs to.
void Trainer::make_loader() {
  const Timeline::Place place = timeline_.at(state_.step);
  const PhaseData& data = phase_at(state_.step);
  loader_.reset();  // its memory first
  loader_ = std::make_unique<Loader>(
      Loader::Setup{.dataset = data.train.get(),
                    .plan = data.plan.get(),
                    .seed = static_cast<uint64_t>(config_.train.seed),
                    .augment = config_.augment,
                    .options = config_.loader,
                    .rank = group_ != nullptr ? group_->rank() : 0,
                    .world = group_ != nullptr ? group_->world() : 1,
                    .start = {place.epoch, place.batch},
                    .epochs = data.phase.end_epoch,
                    .batches_per_epoch = config_.train.epoch_steps > 0 ? data.steps_per_epoch : 0,
                    .clock = setup_.clock,
                    .leave_augmentation = setup_.device != kCpu,
                    .image = data.phase.image,
                    .on_bad = on_bad_sample(config_.data)});
  loader_phase_ = place.phase;
}

Result<Learner::Setup> Trainer::setup_of_learner() const {
  return learner_setup(config_, data_.first().shape, data_.classes(), setup_.device,
                       setup_.kernels);
}

Result<std::string> Trainer::fingerprint_of(const Learner::Setup& learner) {
  return warm_up_ != nullptr ? warm_up_->fingerprint(learner) : arithmetic_fingerprint(learner);
}

Status Trainer::make_learner() {
  if (warm_up_ != nullptr) warm_up_->finish();
  ASSIGN_OR_RETURN(const Learner::Setup setup, setup_of_learner());
  learner_.reset();  // its memory first
  ASSIGN_OR_RETURN(learner_, Learner::create(setup));
  return {};
}

// Weights from elsewhere, and how good they are before they are trained here.
Status Trainer::begin_with_given_weights() {
  if (config_.model.init.empty()) return {};
  ASSIGN_OR_RETURN(const WeightsFile file, read_weights(config_.model.init, setup_.open_store));
  ASSIGN_OR_RETURN(
      const InitReport report,
      learner_->begin_with(file.tensors).at(fmt::format("begin with {}", config_.model.init)));
  nlohmann::json fields = {{"file", config_.model.init},
                           {"sha256", file.sha256},
                           {"loaded", report.loaded},
                           {"head_replaced", report.head_replaced}};
  std::optional<Evaluation> before;
  if (config_.train.evaluate_every > 0) {
    const SpanScope span(spans_, Span::evaluation);
    ASSIGN_OR_RETURN(before, evaluate_quietly());
  }
  if (before) fields.update({{"top1", before->top1}, {"top5", before->top5}});
  records_->ledger("init", fields);
  setup_.log->info(
      "train", "given weights",
      {{"file", config_.model.init},
       {"tensors", std::to_string(report.loaded)},
       {"last_layer", report.head_replaced.empty() ? "given" : "random: other number of classes"},
       {"top1_before", before ? fmt::format("{:.2f}%", 100 * before->top1) : "-"},
       {"top5_before", before ? fmt::format("{:.2f}%", 100 * before->top5) : "-"}});
  return {};
}

// For whoever reads predictions; a data set without names has none.
Status Trainer::write_class_names() {
  std::string text;
  for (const std::string& name : data_.first().train->class_names()) text += name + "\n";
  if (text.empty()) return {};
  return setup_.run->put(kClassNamesObject, text);
}

// Says plainly when this process does not compute what the checkpoint's would have.
Status Trainer::check_arithmetic(const CheckpointText& recorded,
                                 std::vector<std::string>& warnings) {
  const std::string here = instruction_set();
  // A checkpoint of before there were fingerprints says only this.
  const bool is_same = recorded.fingerprint.empty() ? recorded.instruction_set == here
                                                    : recorded.fingerprint == fingerprint_;
  if (is_same) return {};
  std::string why = fmt::format(
      "this machine gives other bits than the one that wrote the "
      "checkpoint ({} there, {} on {} here)",
      recorded.instruction_set, here, setup_.device);
  // What was chosen is not the machine's doing.
  RunConfig there;
  OptionSet there_set = describe_run(there);
  if (there_set.load_toml(recorded.config_toml, kRunFileObject).empty()) {
    for (const OptionChange& change : changed_options(there_set, describe_run(config_))) {
      if (change.key != "train.threads" && change.key != "train.portable" &&
          change.key != "train.deterministic" && change.key != "train.device") {
        continue;
      }
      why = fmt::format("{} was {} and is {}, which gives other bits", change.key, change.before,
                        change.after);
    }
  }
  why += fmt::format(" (fingerprint {}, here {})",
                     recorded.fingerprint.empty() ? "unknown" : recorded.fingerprint, fingerprint_);
  if (config_.train.on_other_bits == "stop") {
    return fail(Code::failed_precondition,
                why +
                    "; go on where it was and as it was, or with --set "
                    "train.on_other_bits=go_on. A run begun with train.portable=true gives the "
                    "same bits on more CPUs");
  }
  warnings.push_back(why +
                     ": the run goes on at its exact step, but its numbers will differ in the "
                     "last digits from an uninterrupted run's");
  return {};
}

void Trainer::watch_gpu() {
  if (setup_.device == kCpu) return;
  auto driver = GpuDriver::open();
  if (!driver) return;
  const auto gpus = (*driver)->gpus();
  const auto index = static_cast<size_t>(setup_.gpu_index);
  if (!gpus || index >= gpus->size()) return;
  gpu_ = (*gpus)[index];
  gpu_driver_ = std::move(*driver);
  const Result<double> energy = gpu_driver_->energy_joules(setup_.gpu_index);
  if (energy.has_value()) energy_before_joules_ = *energy;
}

// Before own work begins on the GPU: who else is there takes time and memory from this run.
void Trainer::name_other_processes(std::vector<std::string>& warnings) {
  if (gpu_driver_ == nullptr) return;
  const auto others = gpu_driver_->other_processes(setup_.gpu_index, setup_.me.pid);
  if (!others.has_value()) return;
  for (const GpuProcess& other : *others) {
    warnings.push_back(
        fmt::format("another process computes on this GPU: {} (pid {}, {:.1f} GB); "
                    "both will be slower",
                    other.name.empty() ? "unknown" : other.name, other.pid,
                    static_cast<double>(other.memory_bytes) / 1e9));
  }
}

// Without instructions for it, 16 bits cost a CPU several times the arithmetic of 32.
void Trainer::warn_of_emulation(Precision precision, std::vector<std::string>& warnings) const {
  if (!is_mixed(precision) || setup_.device != kCpu || cpu_has_bfloat16(setup_.machine)) return;
  warnings.push_back(
      fmt::format("this CPU has no instructions for {} and emulates it, several times slower than "
                  "fp32; --set train.precision=fp32 is faster here",
                  precision_name(precision)));
}

void Trainer::watch_system() {
  if (!setup_.watch_system) return;
  Sampler::Setup setup;
  if (gpu_driver_ != nullptr) {
    setup.gpu = [this] { return gpu_sample(*gpu_driver_, setup_.gpu_index); };
  }
  records_->watch_system(std::move(setup));
}

Status Trainer::restore(const ResumePoint& point) {
  const int64_t number = point.checkpoint.record.number;
  if (point.text.dataset_id != data_.id) {
    return fail(Code::failed_precondition,
                fmt::format("the data is not what the run was trained on: its data set is {:.12}, "
                            "{} is {:.12}{}; give the run its own data, or begin anew (--fresh, or "
                            "another --run)",
                            point.text.dataset_id, data_.first().train->name(), data_.id,
                            data_.id == data_.first().train->id()
                                ? ""
                                : " (a windowed order follows the shards, so how it is packed "
                                  "counts too)"));
  }
  std::vector<Bytes> joined;
  ASSIGN_OR_RETURN(const Safetensors tensors,
                   gather_tensors(point.checkpoint.record.state, point.checkpoint.blobs, joined)
                       .at(fmt::format("read checkpoint {}", number)));
  RETURN_IF_ERROR(learner_->load(tensors).at(fmt::format("restore checkpoint {}", number)));
  state_ = point.text.state;
  state_is_saved_ = true;
  return {};
}

Status Trainer::write_run_file() {
  return setup_.run->put(kRunFileObject, describe_run(config_).to_toml(OptionSet::Comments::no));
}

nlohmann::json Trainer::process_fields() const {
  nlohmann::json fields = {{"step", state_.step},
                           {"version", TERN_VERSION},
                           {"recipe", config_.recipe},
                           {"command", setup_.command},
                           {"threads", config_.train.threads},
                           {"instruction_set", instruction_set()},
                           {"cpu", setup_.machine.cpu},
                           {"machine", machine_json(setup_.machine)},
                           {"libtorch", TERN_LIBTORCH_VERSION},
                           {"device", setup_.device},
                           {"fingerprint", fingerprint_},
                           {"portable", config_.train.portable},
                           {"host", setup_.me.host},
                           {"pid", setup_.me.pid},
                           {"token", setup_.me.token},
                           {"dataset_id", data_.id},
                           {"samples_per_epoch", data_.first().train->size()},
                           {"shuffle", config_.data.shuffle},
                           {"shuffle_quality", shuffle_quality_},
                           {"batch", data_.first().phase.batch},
                           {"phases", data_.phases.size()},
                           {"precision", config_.train.precision},
                           {"loader_threads", config_.loader.threads},
                           {"epochs", config_.train.epochs},
                           {"parameters", learner_->parameters()},
                           {"total_steps", last_step()}};
  if (gpu_) {
    fields["gpu"] = {
        {"name", gpu_->name},
        {"memory_bytes", gpu_->memory_bytes},
        {"driver", gpu_driver_->driver_version()},
        {"cuda", gpu_driver_->cuda_version()},
        {"capability", fmt::format("{}.{}", gpu_->capability_major, gpu_->capability_minor)}};
  }
  return fields;
}

}  // namespace tern
