// The inside of a group of ranks, for the files that speak LibTorch.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "train/collectives.h"

namespace tern {

struct GlooPeers;  // c10d's process group
class GpuPeers;    // NCCL's
struct GpuCollective;

// A collective under way. Holds on to its tensors until Gloo is done with them, also when nobody
// waits for it any more.
struct PendingCollective {
  c10::intrusive_ptr<c10::ivalue::Future> future;  // null: it was done at once
  std::shared_ptr<GpuCollective> on_gpu;           // instead
};

// May throw what LibTorch throws.
struct Collectives::Torch {
  enum class Reduction { sum, largest };

  explicit Torch(const Setup& a_setup) : setup(a_setup), bell(std::make_shared<Bell>()) {}

  // Begins a collective of a dense tensor, in place. What fails at once fails in wait().
  PendingCollective start_reduction(const torch::Tensor& tensor, Reduction reduction);
  PendingCollective start_broadcast(const torch::Tensor& tensor, int64_t source);
  // Until it is done, or the generation is over.
  Status wait(const PendingCollective& pending);

  // Wakes whoever waits, when a collective is done or the generation is over.
  struct Bell {
    std::mutex mutex;
    std::condition_variable_any rung;
  };

  const Setup setup;
  const std::shared_ptr<Bell> bell;
  std::shared_ptr<GlooPeers> peers;  // null in a world of one
  std::shared_ptr<GpuPeers> gpus;    // null without a GPU
  std::atomic<bool> is_broken = false;
  std::atomic<bool> is_waiting = false;
  std::string why_broken;
  CommunicationUse use;

 private:
  template <typename Start>
  PendingCollective begin(int64_t bytes, Start start);
  template <typename Start>
  PendingCollective begin_on_gpu(int64_t bytes, Start start);
  Status wait_for_gpu(const GpuCollective& collective);
};

}  // namespace tern
