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
};

// `corrupt` if the halves do not belong together.
Result<RunData> open_run_data(const RunConfig& config);

}  // namespace tern
