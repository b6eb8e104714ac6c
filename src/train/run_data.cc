#include "train/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/hash.h"
#include "model/model_names.h"

namespace tern {
namespace {

struct Halves {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

Status check_halves(const Halves& halves) {
  const Dataset& train = *halves.train;
  const Dataset& test = *halves.test;
  const auto differ = [&](const std::string& in_what) {
    return fail(Code::corrupt, fmt::format("{} and {} have different {}; are they halves of one "
                                           "data set?",
                                           train.name(), test.name(), in_what));
  };
  if (train.shape().channels != test.shape().channels) {
    return differ("numbers of colour channels");
  }
  if (train.classes() != test.classes()) {
    return differ(fmt::format("numbers of classes ({} and {})", train.classes(), test.classes()));
  }
  return {};
}

Result<ImageShape> shape_for(const Halves& halves, const ImageOptions& image) {
  ImageShape shape = halves.train->shape();
  if (image.size > 0) {
    shape.height = shape.width = image.size;
  } else if (shape.bytes() == 0 || halves.test->shape().bytes() == 0) {
    return fail(
        Code::invalid,
        fmt::format("the images of {} have many sizes; set image.size to the side in pixels "
                    "that the network is to see, for example --set image.size=224",
                    halves.train->name()));
  } else if (halves.train->shape() != halves.test->shape()) {
    return fail(Code::corrupt, fmt::format("{} and {} have images of different shapes; are they "
                                           "halves of one data set?",
                                           halves.train->name(), halves.test->name()));
  }
  return shape;
}

// Batch norm makes statistics of each channel's values: of a single one there are none. A resnet's
// last layers see one value an image where the image is no larger than they shrink it by.
Status check_smallest_piece(const RunConfig& config, const PhaseData& data) {
  const int64_t shrinks_by = config.model.stem == "small" ? 8 : 32;
  if (!is_resnet(config.model.name) || std::max(data.shape.height, data.shape.width) > shrinks_by) {
    return {};
  }
  const int64_t samples = data.train->size();
  const int64_t left = samples % data.phase.batch;
  const bool ends_short = left > 0 && data.steps_per_epoch == data.plan->batches_per_epoch();
  const int64_t smallest = ends_short ? left : data.phase.batch;
  if (smallest / std::min(config.train.accumulate, smallest) > 1) return {};
  return fail(
      Code::invalid,
      fmt::format("with {} samples, a batch of {} and train.accumulate = {}, {} at {}x{} px "
                  "is once given a single sample, of which batch norm can make no "
                  "statistics; choose another batch{}",
                  samples, data.phase.batch, config.train.accumulate, config.model.name,
                  data.shape.height, data.shape.width,
                  data.steps_per_epoch > 1
                      ? fmt::format(", or leave the last one out with train.epoch_steps={}",
                                    data.steps_per_epoch - 1)
                      : ""));
}

Result<PhaseData> phase_data(const RunConfig& config, DataPhase phase, const Halves& halves) {
  PhaseData data{.phase = std::move(phase), .train = halves.train, .test = halves.test};
  ASSIGN_OR_RETURN(data.shape, shape_for(halves, data.phase.image));
  if (data.phase.batch > data.train->size()) {
    return fail(Code::invalid,
                fmt::format("a batch of {} is larger than the whole of {}, which has {} samples; "
                            "lower {}",
                            data.phase.batch, data.train->name(), data.train->size(),
                            config.data_phase.empty() ? "train.batch" : "the phase's batch"));
  }
  ASSIGN_OR_RETURN(const Shuffle shuffle, parse_shuffle(config.data.shuffle));
  data.plan = std::make_shared<const Plan>(data.train->id(), data.train->size(),
                                           static_cast<uint64_t>(config.train.seed),
                                           data.phase.batch, shuffle, data.train->shards());
  data.steps_per_epoch = data.plan->batches_per_epoch();
  if (config.train.epoch_steps > 0) {
    data.steps_per_epoch = std::min(data.steps_per_epoch, config.train.epoch_steps);
  }
  return data;
}

// Of what one data set and its order are.
std::string id_of(const PhaseData& data) {
  if (data.plan->shuffle().order != Order::windowed) return data.train->id();
  Sha256 hash;
  hash.update_field(data.train->id());
  for (const int64_t samples : data.train->shards()) {
    hash.update_number(static_cast<uint64_t>(samples));
  }
  return to_hex(hash.finish());
}

}  // namespace

Timeline RunData::timeline() const {
  std::vector<Timeline::Stretch> stretches;
  for (const PhaseData& data : phases) {
    stretches.push_back({.epochs = data.phase.epochs(),
                         .steps_per_epoch = data.steps_per_epoch,
                         .batch = data.phase.batch});
  }
  return Timeline(std::move(stretches));
}

Result<RunData> open_run_data(const RunConfig& config, const OnStageFailure& on_stage_failure) {
  RunData data;
  std::map<std::string, Halves> by_path;
  bool is_one_set = true;
  for (const DataPhase& phase : data_phases(config)) {
    Halves& halves = by_path[phase.path];
    if (halves.train == nullptr) {
      const RunConfig during = config_in(config, phase);
      ASSIGN_OR_RETURN(halves.train, open_dataset(during.data, Split::train, on_stage_failure));
      ASSIGN_OR_RETURN(halves.test, open_dataset(during.data, Split::test, on_stage_failure));
      RETURN_IF_ERROR(check_halves(halves));
    }
    ASSIGN_OR_RETURN(PhaseData opened, phase_data(config, phase, halves));
    if (!data.phases.empty()) {
      const Dataset& first = *data.first().train;
      if (first.classes() != opened.train->classes() ||
          first.shape().channels != opened.train->shape().channels) {
        return fail(Code::corrupt,
                    fmt::format("{} and {} differ in classes or colour channels; the phases of a "
                                "run need copies of one data set",
                                first.name(), opened.train->name()));
      }
      is_one_set = is_one_set && id_of(opened) == id_of(data.first());
    }
    data.phases.push_back(std::move(opened));
  }
  data.id = id_of(data.first());
  if (!is_one_set) {
    Sha256 hash;
    for (const PhaseData& phase : data.phases) hash.update_field(id_of(phase));
    data.id = to_hex(hash.finish());
  }
  return data;
}

Status check_batches(const RunConfig& config, const RunData& data) {
  for (const PhaseData& phase : data.phases) RETURN_IF_ERROR(check_smallest_piece(config, phase));
  return {};
}

}  // namespace tern
