// The data of a run: both halves and the order of samples, phase by phase.
#pragma once

#include <memory>
#include <vector>

#include "core/result.h"
#include "dataset/dataset.h"
#include "dataset/plan.h"
#include "train/phases.h"
#include "train/run_config.h"

namespace tern {

// Phases that read the same folder share their data sets.
struct PhaseData {
  DataPhase phase;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::shared_ptr<const Plan> plan;
  ImageShape shape;             // of what the network sees
  int64_t steps_per_epoch = 0;  // all batches of the plan, or train.epoch_steps
};

struct RunData {
  std::vector<PhaseData> phases;  // at least one
  // What a checkpoint remembers of the training data: the data set's id, and where the order of
  // samples follows the shards (data.shuffle = window:W), a hash of that and of their sizes. Where
  // phases read several data sets, a hash over all of these.
  std::string id;

  const PhaseData& first() const { return phases.front(); }
  int64_t classes() const { return first().train->classes(); }
  Timeline timeline() const;
};

// `corrupt` if the halves, or the phases, do not belong together; `invalid` if their images have
// many sizes and image.size says none, or if a batch is larger than the data set.
// `on_stage_failure` is told why a local copy (data.stage) could not be made; the source is read
// then.
Result<RunData> open_run_data(const RunConfig& config, const OnStageFailure& on_stage_failure = {});

// `invalid` if a batch, or a piece of one, is so small that the network cannot be trained on it.
Status check_batches(const RunConfig& config, const RunData& data);

}  // namespace tern
