// What is inside the learner, for the files that make it up: learner.cc computes, learner_state.cc
// saves and loads. Speaks LibTorch.
#pragma once

#include <fmt/format.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/network.h"
#include "train/device_batch.h"
#include "train/gradient_buckets.h"
#include "train/late_results.h"
#include "train/learner.h"
#include "train/loss_scaler.h"
#include "train/sgd.h"

namespace tern {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

struct Learner::Torch {
  Setup setup;
  torch::Device device = torch::kCPU;
  bool is_channels_last = false;
  std::shared_ptr<Network> network;
  NamedTensors parameters, buffers;  // the network's own
  std::unique_ptr<Sgd> optimizer;
  std::vector<torch::Tensor> average;  // of the parameters, in their order; empty: none is kept
  std::optional<LossScaler> scaler;    // fp16's
  std::optional<KeptBuffers> kept;     // fp16's, and a group's
  std::unique_ptr<BatchDoor> door;
  std::optional<LateResults> late;           // a GPU's
  DeviceBatch batch;                         // what put() brought
  Collectives* group = nullptr;              // the ranks that steps are taken with; null: alone
  std::unique_ptr<GradientBuckets> buckets;  // with a group

  // Moves the network to its device, type and memory format, and makes what goes with it.
  Status place();

  // Logits in the type of the loss.
  torch::Tensor forward(const torch::Tensor& images);
  // As torch.nn.functional.cross_entropy.
  torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& labels) const;

  // The gradients of the batch, piece by piece, and what a step tells.
  Result<StepResult> gradients_on_cpu(int64_t step);
  StepNumbers gradients_on_gpu();
  void backward(const torch::Tensor& piece_loss, double share);
  // The gradients of all ranks' batches together, weighted by their samples (learner_ranks.cc).
  Result<StepResult> gradients_of_all(int64_t step, RankStep& exchange);
  // Moves the weights and all that follows them.
  void update(double learning_rate);

  // Logits of the batch, without gradients and with the averaged weights where they are kept.
  torch::Tensor evaluation_logits();

  std::vector<torch::Tensor> parameter_tensors() const;
  // Everything the next step depends on, under the names that a checkpoint has for it.
  NamedTensors state() const;
  // The average becomes what the weights are now.
  void begin_average();
};

// Runs `work`, turning what LibTorch throws into an error.
template <typename Work>
auto guarded(const char* doing, Work work) -> decltype(work()) {
  const auto out_of_memory = [doing](const std::string& what) {
    return fail(Code::exhausted,
                fmt::format("{}: out of memory: {}; use a machine with more, or smaller batches: "
                            "train.evaluate_batch, or train.accumulate or train.batch in a run "
                            "begun anew (--fresh, or another --run)",
                            doing, what));
  };
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory(error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return out_of_memory(error.what());
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    // The CPU's allocator has no class of its own for it.
    if (what.find("can't allocate memory") != std::string::npos) return out_of_memory(what);
    return fail(Code::internal, fmt::format("{}: {}", doing, what));
  } catch (const std::exception& error) {
    return fail(Code::internal, fmt::format("{}: {}", doing, error.what()));
  }
}

}  // namespace tern
