// `tern-train predict`: what a run's weights see in pictures, on stdout.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "train/trained_weights.h"

namespace tern {

// `arguments` is what follows "predict". A line a file, in the order given; one that cannot be read
// is named on stderr, the others are predicted, and the exit code at the end is that of the first
// error. Reads only. A signal ends it between two batches, with the exit code that training would
// end with. REQUIRES: SignalWatcher::block_signals() was called, and no watcher is running.
Result<int> predict_mode(const EvalProcess& process, const std::vector<std::string>& arguments);

}  // namespace tern
