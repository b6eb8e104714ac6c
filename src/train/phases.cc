#include "train/phases.h"

#include <algorithm>

namespace tern {

std::vector<DataPhase> data_phases(const RunConfig& config) {
  if (config.data_phase.empty()) {
    return {{.first_epoch = 0,
             .end_epoch = config.train.epochs,
             .batch = config.train.batch,
             .path = config.data.path,
             .image = config.image}};
  }
  std::vector<DataPhase> phases;
  for (const DataPhaseOptions& options : config.data_phase) {
    TERN_CHECK(options.epochs.size() == 2);
    DataPhase phase{.first_epoch = options.epochs[0],
                    .end_epoch = options.epochs[1],
                    .batch = options.batch > 0 ? options.batch : config.train.batch,
                    .path = options.path.empty() ? config.data.path : options.path,
                    .image = config.image};
    if (options.image_size > 0) phase.image.size = options.image_size;
    if (options.min_scale > 0) phase.image.min_scale = options.min_scale;
    if (!options.rectangular.empty()) phase.image.rectangular = options.rectangular == "yes";
    phases.push_back(std::move(phase));
  }
  return phases;
}

RunConfig config_in(const RunConfig& config, const DataPhase& phase) {
  RunConfig during = config;
  during.train.batch = phase.batch;
  during.data.path = phase.path;
  during.image = phase.image;
  return during;
}

Timeline::Timeline(std::vector<Stretch> stretches) : stretches_(std::move(stretches)) {
  TERN_CHECK(!stretches_.empty());
  for (const Stretch& stretch : stretches_) {
    TERN_CHECK(stretch.epochs > 0 && stretch.steps_per_epoch > 0);
    epochs_ += stretch.epochs;
    steps_ += stretch.epochs * stretch.steps_per_epoch;
  }
}

Timeline::Place Timeline::at(int64_t step) const {
  int64_t first_step = 0;
  int64_t first_epoch = 0;
  for (size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& stretch = stretches_[i];
    const int64_t steps = stretch.epochs * stretch.steps_per_epoch;
    if (step < first_step + steps) {
      const int64_t within = step - first_step;
      return {.phase = static_cast<int64_t>(i),
              .epoch = first_epoch + within / stretch.steps_per_epoch,
              .batch = within % stretch.steps_per_epoch};
    }
    first_step += steps;
    first_epoch += stretch.epochs;
  }
  return {.phase = static_cast<int64_t>(stretches_.size()) - 1, .epoch = epochs_, .batch = 0};
}

int64_t Timeline::first_step_of(int64_t epoch) const {
  int64_t step = 0;
  for (const Stretch& stretch : stretches_) {
    const int64_t epochs = std::clamp<int64_t>(epoch, 0, stretch.epochs);
    step += epochs * stretch.steps_per_epoch;
    epoch -= epochs;
  }
  return step;
}

int64_t Timeline::steps_per_epoch_at(int64_t step) const {
  return stretches_[static_cast<size_t>(at(step).phase)].steps_per_epoch;
}

int64_t Timeline::batch_at(int64_t step) const {
  return stretches_[static_cast<size_t>(at(step).phase)].batch;
}

}  // namespace tern
