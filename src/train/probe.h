// Measures what a plan can only guess: how fast the steps of each phase are here, and whether they
// fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "train/plan_facts.h"
#include "train/run_config.h"

namespace tern {

struct ProbeSetup {
  RunConfig config;    // train.threads decided
  std::string device;  // by choose_device()
  std::filesystem::path kernels;
  int64_t memory_available_bytes = 0;  // of the host, for a CPU; 0: not known
  int64_t steps = 20;                  // measured for each figure, after
  int64_t warm_steps = 5;              // that are not: kernels are chosen, queues are filled
  // A figure has at least three steps; beyond that it takes no longer than this.
  Nanoseconds limit = std::chrono::minutes(2);
  Clock* clock = nullptr;  // these outlive the probe
  Log* log = nullptr;      // for progress
};

// Trains each phase that the run comes to, first on synthetic samples that are made once, then with
// the loader, and evaluates a few batches; fills in `speed` of the phases, save_s and what a GPU
// held. A batch that does not fit becomes a warning with the largest that does. Writes nothing.
// Blocks for as long as the steps take; whoever wants it to stop ends the process.
Status probe_plan(const ProbeSetup& setup, PlanFacts& facts);

// The largest batch below `too_large` that fits, to a sixteenth of itself; 0 if not even 1 does.
// Powers of two first, then halves of what is between. REQUIRES: what fits, fits when smaller.
Result<int64_t> largest_that_fits(int64_t too_large,
                                  const std::function<Result<bool>(int64_t)>& fits);

// What a process may still take: MemAvailable, within what its control group grants. 0: not known.
int64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace tern
