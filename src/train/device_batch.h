// How a batch of bytes becomes numbers on the device. Speaks LibTorch: for learner.cc alone.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>

#include "core/result.h"
#include "loader/loader.h"

namespace tern {

struct DeviceBatch {
  torch::Tensor images;  // float32, normalised
  torch::Tensor labels;  // int64
};

// Owned by the learner; one thread. May throw what LibTorch throws.
class BatchDoor {
 public:
  virtual ~BatchDoor() = default;
  // The batch may go away once it returns. Augmentation that the loader left to the device is done.
  virtual Result<DeviceBatch> put(const Batch& batch) = 0;
};

// `mean` and `stddev` are float32 of shape (1, C, 1, 1).
std::unique_ptr<BatchDoor> make_cpu_door(torch::Tensor mean, torch::Tensor stddev);

// Through pinned memory and our kernel (`kernels` is libtern_cuda.so), on the current stream,
// without waiting for the GPU; float results are those of the CPU, bit for bit.
Result<std::unique_ptr<BatchDoor>> make_cuda_door(torch::Tensor mean, torch::Tensor stddev,
                                                  const std::filesystem::path& kernels);

}  // namespace tern
