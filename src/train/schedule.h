// The learning rate as a function of the step: nothing to save, nothing to restore.
#pragma once

#include <cstdint>

#include "train/options.h"

namespace tern {

struct ScheduleLength {
  int64_t steps_per_epoch = 1;
  int64_t epochs = 1;
};

// The rate at `step` (0 for the first). Warm-up rises linearly over its steps and ends at full
// height; what follows is the shape over the rest of the run. Past the last step it stays where it
// ended.
double learning_rate_at(const ScheduleOptions& schedule, double full_rate, ScheduleLength length,
                        int64_t step);

}  // namespace tern
