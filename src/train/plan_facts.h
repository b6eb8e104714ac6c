// Finds out what a run will do: opens its data, builds its network, follows its schedule. Writes
// nothing, fetches nothing, copies nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/result.h"
#include "dataset/dataset.h"
#include "train/memory_estimate.h"
#include "train/run_config.h"
#include "train/run_plan.h"

namespace tern {

// What the run is planned for.
struct PlanPlace {
  int64_t cores = 1;
  bool has_gpu = false;           // that train.device would take
  std::filesystem::path kernels;  // libtern_cuda.so
};

// What a probe needs to know of a phase besides what is shown.
struct PhaseFacts {
  ImageShape shape;  // of what the network sees; bytes() is 0 if not known
  int64_t classes = 0;
  std::optional<MemoryEstimate> memory;  // nothing if the shape is not known
  int64_t fixed_host_bytes = 0;          // data, LibTorch, a checkpoint being written
};

struct PlanFacts {
  RunPlan plan;
  std::vector<PhaseFacts> phases;
};

// Data that is not here becomes a warning with the command that makes it, and what follows from it
// stays unknown; data that is damaged, or a network that cannot take its images, is an error, as it
// is when the run begins. Blocks for seconds: a few steps of a few samples are computed.
Result<PlanFacts> find_plan_facts(const RunConfig& config, const PlanPlace& place);

// What the process holds in batches that are read ahead.
int64_t loader_bytes(const RunConfig& config, const ImageShape& shape, int64_t batch);

// What the whole process takes with this batch, if a CPU computes. REQUIRES: phase.memory.
int64_t process_bytes(const RunConfig& config, const PhaseFacts& phase, int64_t batch);

// The config with what a trainer would fill in: train.threads.
RunConfig config_here(RunConfig config, int64_t cores);

// train.evaluate_batch, or 0 if the run evaluates nothing.
int64_t evaluate_batch_of(const RunConfig& config);

}  // namespace tern
