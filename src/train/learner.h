// The arithmetic of a run: network, loss, optimizer. The only place where LibTorch's exceptions are
// turned into errors, and no LibTorch type leaves it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"
#include "loader/loader.h"
#include "model/options.h"
#include "storage/safetensors.h"
#include "train/collectives.h"
#include "train/device.h"
#include "train/options.h"
#include "train/rank_word.h"

namespace tern {

struct StepResult {
  int64_t step = 0;  // 0 for the first
  double loss = 0;   // mean over the batch
  int64_t correct = 0;
  bool is_skipped = false;  // fp16: the gradient overflowed, so that nothing was changed
};
using StepResults = std::vector<StepResult>;

// How much of the gradients is sent at once: first little, so that sending begins early.
struct BucketBytes {
  int64_t first = int64_t{1} << 20;
  int64_t rest = int64_t{25} << 20;
};

// Sums over a batch, to be added up over a data set.
struct EvaluationSums {
  double loss = 0;
  int64_t top1 = 0;
  int64_t top5 = 0;
  int64_t samples = 0;
  std::vector<int64_t> class_samples;  // by class
  std::vector<int64_t> class_top1;

  EvaluationSums& operator+=(const EvaluationSums& more);
};

// The classes that a network thinks most likely for one sample, best first.
struct Prediction {
  struct Guess {
    int64_t label = 0;
    double probability = 0;
  };
  std::vector<Guess> guesses;
};

// What a run computes in. Mixed ones keep weights, batch norm and loss in fp32.
enum class Precision { fp32, bf16, fp16, fp64 };
inline bool is_mixed(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}
// "fp32", "bf16", ...
std::string_view precision_name(Precision precision);
// What train.precision means on a device: "mixed" is bf16 where the device has it, else fp16 (a
// CPU: bf16). `kernels` is libtern_cuda.so, asked on a GPU.
Result<Precision> choose_precision(const std::string& option, const std::string& device,
                                   const std::filesystem::path& kernels);

// What begin_with() found in a file of weights.
struct InitReport {
  int64_t loaded = 0;                      // tensors
  std::vector<std::string> head_replaced;  // the last layer's, left random: other class count
};

// What a device did besides the host; all 0 on a CPU.
struct DeviceUse {
  // By its own events, over the steps whose results are known; where the host launches too slowly,
  // the gaps between its launches are in it.
  Nanoseconds compute{0};
  int64_t steps = 0;
  int64_t dry_steps = 0;  // before which it had nothing left to do
  int64_t peak_memory_bytes = 0;
};

// Owned by the step loop; one thread calls it. Results depend on the options, the seed, the
// batches, the thread count and the CPU's instruction set (or the GPU), on nothing else: no
// generator is carried along.
//
// On a GPU steps are put on its queue and not waited for, so their results come a few steps late;
// save(), load(), weights() and evaluate() wait for the queue by themselves.
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
    std::string device = kCpu;      // as choose_device() says
    bool deterministic = true;      // a GPU's fastest kernels are not; a CPU's are anyway
    std::filesystem::path kernels;  // libtern_cuda.so; only a GPU needs it
    Precision precision = Precision::fp32;
    int64_t accumulate = 1;  // pieces that a batch is computed in
    double ema = 0;          // decay of the moving average of the weights; 0: none
  };

  // Builds the network with the first weights that follow from the seed.
  static Result<std::unique_ptr<Learner>> create(const Setup& setup);
  ~Learner();

  // Brings a batch to the device, normalised: the one that step() or evaluate() uses next. The
  // batch may go away afterwards.
  Status put(const Batch& batch);
  // Trains on it. `step` (0 for the first) keys what is random inside the model. Returns the
  // results that have become known, in order: on a CPU this step's.
  Result<StepResults> step(int64_t step, double learning_rate);
  // From now on steps are taken with the other ranks of `group`, which outlives the next join() or
  // the learner; null: alone. All must have the same state. Only on a CPU.
  Status join(Collectives* group, BucketBytes bytes = {});
  // The same step on all ranks of the group, each with its share of the batch, which may be empty.
  // The result is the whole batch's, and the same on every rank, as are the weights afterwards.
  // `unavailable` if a rank was lost: then nothing has changed, and the step can be taken again in
  // another group. No result if the step was given up or no rank had a sample: nothing has changed.
  Result<StepResults> step_together(int64_t step, double learning_rate, RankStep& exchange);
  // Waits for the results that are still out.
  Result<StepResults> finish_steps();
  // With the moving average of the weights, where there is one; in the training's precision.
  Result<EvaluationSums> evaluate();
  // The same, but the `count` best classes of each sample of the batch.
  Result<std::vector<Prediction>> predict(int64_t count);

  // Takes weights from elsewhere, under their PyTorch names, before the first step: parameters and
  // buffers, converted to the network's type. The last layer keeps its random weights if its class
  // count differs. Every other missing, extra or misshaped tensor is named; then nothing changes.
  Result<InitReport> begin_with(const Safetensors& weights);

  // Everything the next step depends on, as one safetensors file: `model.*`, `momentum.*`, and
  // where they are used `ema.*` and `scaler.*`.
  Result<Bytes> save() const;
  // The inverse. Every missing, extra or misshaped tensor is named; then nothing is changed.
  Status load(const Safetensors& state);
  // The weights alone under their PyTorch names, those that evaluate() uses: what other tools load.
  Result<Bytes> weights() const;

  int64_t parameters() const;
  DeviceUse device_use() const;

 private:
  struct Torch;
  explicit Learner(std::unique_ptr<Torch> torch);
  std::unique_ptr<Torch> torch_;
};

// What train.portable pins; trainer_environment() (src/cli) sets it before LibTorch is loaded.
inline constexpr char kPortableInstructionSet[] = "AVX2";

// "AVX2", "AVX512", ...: what LibTorch's kernels use here. Part of the arithmetic.
std::string instruction_set();

// 16 hex digits that stand for this machine's arithmetic: the hash of what one step of this model
// on fixed synthetic data leaves, seeds and the user's own data apart. Equal on two machines, their
// results are equal, as far as one step can tell. Takes well under a second.
Result<std::string> arithmetic_fingerprint(Learner::Setup setup);

}  // namespace tern
