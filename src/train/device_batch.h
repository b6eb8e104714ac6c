// How a batch of bytes becomes numbers on the device. Speaks LibTorch: for the learner alone.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "core/result.h"
#include "loader/loader.h"

namespace tern {

struct DeviceBatch {
  torch::Tensor images;  // normalised
  torch::Tensor labels;  // int64
};

// Owned by the learner; one thread. May throw what LibTorch throws.
class BatchDoor {
 public:
  struct Setup {
    torch::Device device = torch::kCPU;
    std::vector<double> mean, stddev;  // one for each channel
    // Of the images. 16-bit types only on a GPU: there they spare a pass over the images.
    torch::ScalarType type = torch::kFloat32;
    bool is_channels_last = false;  // in memory; the tensors' dimensions are the same
    std::filesystem::path kernels;  // libtern_cuda.so; only a GPU needs it
  };

  // On a GPU: through pinned memory and our kernel, on the current stream, without waiting; float
  // results are those of the CPU, bit for bit.
  static Result<std::unique_ptr<BatchDoor>> open(const Setup& setup);
  virtual ~BatchDoor() = default;

  // The batch may go away once it returns. Augmentation that the loader left to the device is done.
  virtual Result<DeviceBatch> put(const Batch& batch) = 0;
};

}  // namespace tern
