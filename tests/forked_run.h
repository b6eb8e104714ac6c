// A run of 42 steps by the real trainer, each of its processes a fork of the test, on a simulated
// clock and on a store that fails as planned. For tests of what must not change a bit.
//
// The test itself never computes: LibTorch is loaded once, and a kill is a real one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "preempt/notice.h"
#include "storage/faulty_store.h"
#include "storage/object_store.h"
#include "train/trainer.h"

namespace tern {

inline constexpr int64_t kTinyRunSteps = 42;  // 7 epochs of 6 batches, the last of each smaller

// With augmentation and dropout, on the data of write_tiny_data(); a checkpoint every 5 seconds.
RunConfig tiny_config(const std::filesystem::path& data);

// What one process lives in. The clock moves a second a step, so that checkpoints fall on every
// fifth; then `on_step` is called.
struct ForkedWorld {
  SimClock& clock;
  NoticeBoard& board;
  ObjectStore& kept;    // what is really there
  FaultyStore& store;   // what the process sees of it
  TrainerSetup& setup;  // its on_step is set by the fork
  std::function<void(const StepEvent&)> on_step;
};

// How a store looks: as a folder, whose records and log are files that grow, or as a bucket, where
// each line of them is a request that can fail.
enum class StoreShape { folder, bucket };

// Opens the store that a run is kept in; nothing if that fails. Each process opens its own.
using OpenRun = std::function<std::shared_ptr<ObjectStore>()>;

struct ForkedProcess {
  OpenRun open;  // not given: the folder RUN
  StoreShape shape = StoreShape::folder;
  std::function<void(ForkedWorld&)> arrange;  // in the fork, before the training begins
};

// Runs one process to its end; its exit code, or minus the signal that killed it. What it logged is
// added to RUN.log, and its requests are in RUN.requests.
int run_process(const std::filesystem::path& run, const RunConfig& config,
                const ForkedProcess& process = {});

// The requests of the last process that came to its end.
std::vector<std::string> requests_of(const std::filesystem::path& run);

// What must be equal, however a run came about.
struct Remains {
  std::map<int64_t, std::string> losses;  // by step, as written, without the times
  std::string weights;                    // model.safetensors
  std::vector<std::string> blobs;         // hashes of the last checkpoint: weights and momentum
  std::string epochs;                     // every epoch's summary
  std::string complaint;                  // two processes recorded different losses for one step

  bool operator==(const Remains&) const = default;
};

Remains read_remains(ObjectStore& run);
Remains read_remains(const std::filesystem::path& run);

// Every TERN_INTERRUPT_EVERY-th of a test's cases is run (sanitizers are slow); `otherwise` if it
// is not set.
int64_t interrupt_every(int64_t otherwise = 1);

}  // namespace tern
