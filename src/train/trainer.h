// The step loop. Start here for training: trainer.cc reads as the story of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "report/run_report.h"
#include "storage/object_store.h"
#include "storage/sequence.h"
#include "train/branch.h"
#include "train/device.h"
#include "train/rank_door.h"
#include "train/run_config.h"
#include "train/run_data.h"

namespace tern {

inline constexpr char kCheckpointPrefix[] = "checkpoints/";

// What has happened after a step; for progress on a screen, and for tests that interrupt.
struct StepEvent {
  int64_t step = 0;  // steps done
  int64_t total_steps = 0;
  int64_t samples = 0;  // trained on so far, of total_samples
  int64_t total_samples = 0;
  int64_t epoch = 0;
  double loss = 0;
};

struct TrainerSetup {
  RunConfig config;
  std::string run_name;  // for messages: "runs/demo"
  std::string command;   // what was typed
  Holder me;
  int64_t cores = 1;          // of this machine; the thread count if the run file leaves it open
  Nanoseconds age{0};         // what this process has lived before train() is called
  Machine machine;            // for the record
  std::string device = kCpu;  // by choose_device()
  std::filesystem::path kernels;     // libtern_cuda.so; only a GPU needs it
  int gpu_index = 0;                 // of the driver's list, for the record
  bool watch_system = false;         // sample what the machine does, on a thread; needs real time
  StoreOpener open_store;            // for weights in a bucket (model.init); may be null
  std::optional<BranchSource> from;  // --from, for a run that has no checkpoint of its own
  // These outlive the training.
  ObjectStore* run = nullptr;
  ObjectStore* from_checkpoints = nullptr;  // checkpoints/ of the run that `from` names
  Clock* clock = nullptr;
  Log* log = nullptr;
  NoticeBoard* board = nullptr;
  RankDoor* ranks = nullptr;  // the way to the other ranks; null: this process trains alone
  // With ranks, called by the one that begins the run before it looks into the run's folder: what
  // main() would else have done by itself.
  std::function<Status()> prepare;
  std::function<void(const StepEvent&)> on_start;  // once, before the first step
  std::function<void(const StepEvent&)> on_step;   // after each step, between steps
};

// How this process ended.
struct Outcome {
  RunStatus status = RunStatus::done;
  int exit_code = 0;
  int64_t step = 0;
  int64_t steps_lost = 0;  // steps done that no checkpoint holds
  std::string reason;
  bool has_led = true;  // false: another rank tells how the run ended
};

// With ranks, all of them call it; only the one that leads touches the run, and another takes over
// if that one is lost.
//
// Trains until done or told to leave: resumes whatever the run folder holds, keeps checkpoints,
// ledger and metrics, and writes model.safetensors and report.json at the end. An error is returned
// only if the run could not begin; one that fails later is an Outcome like any other, told in its
// ledger, and one that is lost to another process is an Outcome that the ledger, by then the
// other's, says nothing of.
Result<Outcome> train(const TrainerSetup& setup, RunData data);

}  // namespace tern
