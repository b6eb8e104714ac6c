// The arithmetic of a run: network, loss, optimizer. The only place where LibTorch's exceptions are
// turned into errors, and no LibTorch type leaves it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/bytes.h"
#include "core/result.h"
#include "loader/loader.h"
#include "model/options.h"
#include "storage/safetensors.h"
#include "train/options.h"

namespace tern {

struct StepResult {
  double loss = 0;  // mean over the batch
  int64_t correct = 0;
};

// Sums over a batch, to be added up over a data set.
struct EvaluationSums {
  double loss = 0;
  int64_t top1 = 0;
  int64_t top5 = 0;
  int64_t samples = 0;
};

// Owned by the step loop; one thread calls it. Results depend on the options, the seed, the
// batches, the thread count and the CPU's instruction set, on nothing else: no generator is carried
// along.
class Learner {
 public:
  struct Setup {
    ModelOptions model;
    OptimizerOptions optimizer;
    double label_smoothing = 0;
    uint64_t seed = 0;
    ImageShape shape;
    int64_t classes = 0;
    int64_t threads = 1;
  };

  // Builds the network with the first weights that follow from the seed.
  static Result<std::unique_ptr<Learner>> create(const Setup& setup);
  ~Learner();

  // Trains on one batch. `step` (0 for the first) keys what is random inside the model.
  Result<StepResult> step(const Batch& batch, int64_t step, double learning_rate);
  Result<EvaluationSums> evaluate(const Batch& batch);

  // Everything the next step depends on, as one safetensors file: `model.*` and `momentum.*`.
  Result<Bytes> save() const;
  // The inverse. Every missing, extra or misshaped tensor is named; then nothing is changed.
  Status load(const Safetensors& state);
  // The weights alone under their PyTorch names: what other tools load.
  Result<Bytes> weights() const;

  int64_t parameters() const;

 private:
  struct Torch;
  explicit Learner(std::unique_ptr<Torch> torch);
  std::unique_ptr<Torch> torch_;
};

// "AVX2", "AVX512", ...: what LibTorch's kernels use here. Part of the arithmetic.
std::string instruction_set();

}  // namespace tern
