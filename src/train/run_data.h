// The data of a run: both halves, and the order in which the first is seen.
#pragma once

#include <memory>

#include "core/result.h"
#include "dataset/dataset.h"
#include "dataset/plan.h"
#include "train/run_config.h"

namespace tern {

struct RunData {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
  std::unique_ptr<Plan> plan;
  ImageShape shape;  // of what the network sees
  // What a checkpoint remembers of the training data: the data set's id, and where the order of
  // samples follows the shards (data.shuffle = window:W), a hash of that and of their sizes.
  std::string id;
};

// `corrupt` if the halves do not belong together; `invalid` if their images have many sizes and
// image.size says none.
// `on_stage_failure` is told why a local copy (data.stage) could not be made; the source is read
// then.
Result<RunData> open_run_data(const RunConfig& config, const OnStageFailure& on_stage_failure = {});

}  // namespace tern
