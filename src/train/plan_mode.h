// `tern-train plan`: what a run will do, on stdout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "train/run_config.h"

namespace tern {

// What main() knows of the process. The pointers outlive the call.
struct PlanMode {
  std::vector<Recipe> recipes;
  int64_t cores = 1;              // that compute, if the run file leaves it open
  std::filesystem::path kernels;  // libtern_cuda.so
  bool gpus_are_hidden = false;   // CUDA_VISIBLE_DEVICES names none
  std::string locale;             // the first that is set of LC_ALL, LC_CTYPE, LANG
  StoreOpener open_store;         // for data in a bucket
  Clock* clock = nullptr;
  Log* log = nullptr;  // for progress and warnings
};

// `arguments` is what follows "plan". Problems of the run file go to stderr, each on a line. A
// signal ends the process at once, with the exit code that training would end with: nothing is
// written that could be left half done. REQUIRES: SignalWatcher::block_signals() was called, and no
// watcher is running.
Result<int> plan_mode(const PlanMode& mode, const std::vector<std::string>& arguments);

}  // namespace tern
