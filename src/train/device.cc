#include "train/device.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include "cuda/gpu.h"

namespace tern {
namespace {

constexpr char kCudaHalf[] = "libtorch_cuda.so";
constexpr char kTurnOff[] = "or train on the CPU with --set train.device=cpu";

// Registers the CUDA kernels with the LibTorch that is loaded; stays loaded for good.
Status load_cuda_half(const std::string& gpu, const std::string& driver) {
  if (dlopen(kCudaHalf, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* why = dlerror();
    return fail(Code::unavailable,
                fmt::format("{} is here, but LibTorch's CUDA half cannot be loaded: {}; install a "
                            "whole one (pip install torch==2.11.0) and set TERN_LIBTORCH to its "
                            "torch folder, {}",
                            gpu, why == nullptr ? "no reason given" : why, kTurnOff));
  }
  if (!torch::cuda::is_available()) {
    return fail(Code::unavailable,
                fmt::format("{} is here, but CUDA 13 does not run on it (driver {}); LibTorch "
                            "2.11.0 wants a driver of 580 or newer and a GPU of Turing or newer: "
                            "update the driver, {}",
                            gpu, driver, kTurnOff));
  }
  return {};
}

}  // namespace

Result<std::string> choose_device(const std::string& wanted) {
  if (wanted == "cpu") return std::string(kCpu);
  const auto driver = GpuDriver::open();
  if (!driver) {
    if (wanted == "auto" && driver.error().code == Code::not_found) return std::string(kCpu);
    return driver.error().at("train.device = " + wanted);
  }
  ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, (*driver)->gpus());
  if (gpus.empty()) {
    if (wanted == "auto") return std::string(kCpu);
    return fail(Code::not_found, fmt::format("train.device = {}, and the driver shows no GPU; {}",
                                             wanted, kTurnOff));
  }
  RETURN_IF_ERROR(load_cuda_half(gpus.front().name, (*driver)->driver_version()));
  return std::string(kCuda);
}

}  // namespace tern
