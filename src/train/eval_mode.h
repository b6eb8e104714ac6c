// `tern-train eval`: the accuracy of a run's weights, on stdout.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "train/trained_weights.h"

namespace tern {

// `arguments` is what follows "eval". Reads only: takes no lease, writes no file. A signal ends it
// between two batches, with nothing printed and the exit code that training would end with.
// REQUIRES: SignalWatcher::block_signals() was called, and no watcher is running.
Result<int> eval_mode(const EvalProcess& process, const std::vector<std::string>& arguments);

}  // namespace tern
