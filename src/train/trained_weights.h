// Weights that somebody trained, to be used and not changed: of a run's checkpoint, or of a file.
// What `tern eval` and `tern predict` share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cloud/open_store.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "storage/safetensors.h"
#include "train/eval_flags.h"
#include "train/learner.h"
#include "train/run_config.h"

namespace tern {

// What main() knows of the process. The pointers outlive the call.
struct EvalProcess {
  std::vector<Recipe> recipes;
  int64_t cores = 1;              // that compute, if the run leaves it open
  std::filesystem::path kernels;  // libtern_cuda.so
  bool gpus_are_hidden = false;   // CUDA_VISIBLE_DEVICES names none
  CloudDoor* door = nullptr;
  Clock* clock = nullptr;
  Log* log = nullptr;  // for progress and warnings
};

// The tensors are views of the bytes beside them: it moves, it is not copied.
struct TrainedWeights {
  std::string name;      // "runs/demo", or the file
  RunConfig config;      // of the phase that the checkpoint is in, with the request's --set
  int64_t number = -1;   // of the checkpoint; -1: from a file
  int64_t step = -1;     // of the checkpoint
  std::string sha256;    // of the file; empty: from a checkpoint
  int64_t classes = 0;   // that the last layer tells apart
  int64_t channels = 0;  // of the images that it was trained on
  std::vector<std::string> class_names;  // by label; empty: not recorded

  std::vector<Bytes> bytes;
  std::vector<Bytes> joined;  // tensors that came in several pieces
  Safetensors tensors;        // a checkpoint's, or under their PyTorch names those of a file
};

// Reads the run's options and one checkpoint, or the run file and the weights. Takes no lease and
// writes nothing; the run may be training. Problems of a run file or of --set go to stderr.
Result<TrainedWeights> open_trained_weights(const WeightsRequest& request,
                                            const EvalProcess& process);

// The network with these weights, on the device that the options and the machine give.
// failed_precondition names every tensor that does not fit.
Result<std::unique_ptr<Learner>> make_learner(const TrainedWeights& weights, ImageShape shape,
                                              const EvalProcess& process);

// "ants", or "class 7" where names are not known.
std::string class_name(const TrainedWeights& weights, int64_t label);

// The answer, to stdout. `unavailable` if it does not take it; one that is no longer read (`|
// head`) is no failure.
Status print_answer(std::string_view text);

}  // namespace tern
