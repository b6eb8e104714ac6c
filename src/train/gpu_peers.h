// The GPUs of a group's ranks, which add up among themselves by NCCL. Speaks LibTorch.
#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <memory>
#include <stop_token>

#include "cuda/nccl.h"
#include "train/collectives.h"

namespace tern {

// A collective under way, on a stream beside the one that computes.
struct GpuCollective {
  torch::Tensor tensor;  // its memory must last
  c10::Event done;
};

// Shared by a group and what is under way in it. One thread, and autograd's while that thread waits
// for it. May throw what LibTorch throws.
class GpuPeers {
 public:
  // Blocks until all ranks have come. Each has one GPU, cuda:0.
  static Result<std::shared_ptr<GpuPeers>> open(const Collectives::Setup& setup);

  // In place, after what the current stream has been given until now.
  Result<std::shared_ptr<GpuCollective>> start_reduction(const torch::Tensor& tensor,
                                                         NcclReduction reduction);
  Result<std::shared_ptr<GpuCollective>> start_broadcast(const torch::Tensor& tensor,
                                                         int64_t source);
  // Until it is done; `unavailable` when `over` fires or NCCL has lost a peer, and then the group
  // is of no further use. Waits on this thread, since weights must not move by sums that never
  // came.
  Status wait(const GpuCollective& collective, const std::stop_token& over);

 private:
  GpuPeers(std::unique_ptr<NcclGroup> group, c10::Stream stream, Clock& clock)
      : group_(std::move(group)), stream_(stream), clock_(clock) {}

  template <typename Put>
  Result<std::shared_ptr<GpuCollective>> start(const torch::Tensor& tensor, Put put);

  const std::unique_ptr<NcclGroup> group_;
  const c10::Stream stream_;
  Clock& clock_;
};

}  // namespace tern
