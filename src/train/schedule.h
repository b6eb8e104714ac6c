// The learning rate as a function of the step: nothing to save, nothing to restore.
#pragma once

#include <cstdint>

#include "train/phases.h"
#include "train/run_config.h"

namespace tern {

// The rate at `step` (0 for the first). Warm-up rises linearly over its steps and ends at full
// height; what follows is the shape over the rest of the run. Past the last step it stays where it
// ended. With schedule.reference_batch it is scaled to the batch of the step's phase.
double learning_rate_at(const RunConfig& config, const Timeline& timeline, int64_t step);

}  // namespace tern
