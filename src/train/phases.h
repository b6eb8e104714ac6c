// The phases of a run: stretches of epochs with one image size, batch and data set. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train/run_config.h"

namespace tern {

// A data phase with everything filled in.
struct DataPhase {
  int64_t first_epoch = 0;
  int64_t end_epoch = 0;  // the first after it
  int64_t batch = 0;
  std::string path;
  ImageOptions image;

  int64_t epochs() const { return end_epoch - first_epoch; }
};

// Those of [[data_phase]], or the whole run as one. REQUIRES: a config that load_run_config() took.
std::vector<DataPhase> data_phases(const RunConfig& config);

// The config as it is during one phase: train.batch, data.path and image are the phase's.
RunConfig config_in(const RunConfig& config, const DataPhase& phase);

// Which phase, epoch and batch a step belongs to; a function of the step, so that a resume is a
// seek. A value; safe from any thread.
class Timeline {
 public:
  // A phase's part of it. REQUIRES: both above 0.
  struct Stretch {
    int64_t epochs = 0;
    int64_t steps_per_epoch = 0;
    int64_t batch = 0;
  };
  explicit Timeline(std::vector<Stretch> stretches);

  int64_t epochs() const { return epochs_; }
  int64_t steps() const { return steps_; }
  const std::vector<Stretch>& stretches() const { return stretches_; }

  struct Place {
    int64_t phase = 0;
    int64_t epoch = 0;  // of the run
    int64_t batch = 0;  // of the epoch

    bool operator==(const Place&) const = default;
  };
  // Where the step after `step` done ones is: 0 is the first. Past the end: the last phase, epoch
  // epochs(), batch 0.
  Place at(int64_t step) const;
  // Steps before `epoch` begins; steps() for epochs() and beyond.
  int64_t first_step_of(int64_t epoch) const;
  // Epochs that are complete after `step` steps.
  int64_t epochs_after(int64_t step) const { return at(step).epoch; }
  // Steps of the epoch that the step at `step` belongs to.
  int64_t steps_per_epoch_at(int64_t step) const;
  int64_t batch_at(int64_t step) const;

 private:
  std::vector<Stretch> stretches_;
  int64_t epochs_ = 0;
  int64_t steps_ = 0;
};

}  // namespace tern
