// Which device computes.
#pragma once

#include <string>

#include "core/result.h"

namespace tern {

inline constexpr char kCpu[] = "cpu";
inline constexpr char kCuda[] = "cuda:0";

// Takes train.device: "cpu", "cuda", or "auto", which is the GPU where the driver shows one. Loads
// LibTorch's CUDA half when a GPU is to be used, and then proves that it works: a GPU that is there
// and cannot be used is `unavailable`, with the cause and what to do, never a silent CPU run.
Result<std::string> choose_device(const std::string& wanted);

}  // namespace tern
