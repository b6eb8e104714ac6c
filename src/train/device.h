// Which device computes.
#pragma once

#include <filesystem>
#include <string>

#include "core/log.h"
#include "core/result.h"

namespace tern {

inline constexpr char kCpu[] = "cpu";
inline constexpr char kCuda[] = "cuda:0";

struct DeviceRequest {
  std::string wanted;             // train.device: auto, cpu or cuda
  std::filesystem::path kernels;  // libtern_cuda.so
  bool gpus_are_hidden = false;   // CUDA_VISIBLE_DEVICES names none
};

// Finds the driver and a GPU and loads LibTorch's CUDA half. not_found: there is no GPU to be used.
Status open_cuda(bool gpus_are_hidden);

// "auto" is the GPU where the driver shows one. Loads LibTorch's CUDA half when a GPU is to be
// used, and proves that it works. A GPU that is there and cannot be used is an error for "cuda",
// and for "auto" a warning with the cause and what to do: never a silent run on the CPU.
Result<std::string> choose_device(const DeviceRequest& request, Log& log);

}  // namespace tern
