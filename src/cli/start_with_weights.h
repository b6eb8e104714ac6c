// What `tern eval` and `tern predict` must know of the weights before they become tern-train.
#pragma once

#include "cli/become_trainer.h"
#include "train/eval_flags.h"

namespace tern {

// How to compute with these weights: as the run did, or as the run file of --init says. Looks at
// the run's folder or reads the run file, whose problems go to stderr. not_found if there is no
// such run. The arguments are left to the caller.
Result<TrainerStart> start_with_weights(const Surroundings& surroundings,
                                        const WeightsRequest& request);

}  // namespace tern
