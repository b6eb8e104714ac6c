#include "train/device.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include "cuda/gpu.h"
#include "cuda/kernels.h"

namespace tern {
namespace {

constexpr char kCudaHalf[] = "libtorch_cuda.so";
// Registers the CUDA kernels with the LibTorch that is loaded; stays loaded for good.
Status load_cuda_half(const std::string& gpu, const std::string& driver) {
  if (dlopen(kCudaHalf, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* why = dlerror();
    return fail(Code::unavailable,
                fmt::format("{} is here, but LibTorch's CUDA half cannot be loaded: {}; install a "
                            "whole one (pip install torch==2.11.0) and set TERN_LIBTORCH to its "
                            "torch folder",
                            gpu, why == nullptr ? "no reason given" : why));
  }
  if (!torch::cuda::is_available()) {
    return fail(Code::unavailable,
                fmt::format("{} is here, but CUDA 13 does not run on it (driver {}); LibTorch "
                            "2.11.0 wants a driver of 580 or newer and a GPU of Turing or newer: "
                            "update the driver",
                            gpu, driver));
  }
  return {};
}

}  // namespace

Status open_cuda(bool gpus_are_hidden) {
  ASSIGN_OR_RETURN(const auto driver, GpuDriver::open());
  ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, driver->gpus());
  if (gpus.empty()) return fail(Code::not_found, "the driver shows no GPU");
  if (gpus_are_hidden) {
    return fail(Code::not_found, "CUDA_VISIBLE_DEVICES hides every GPU; unset it to use one");
  }
  return load_cuda_half(gpus.front().name, driver->driver_version());
}

Result<std::string> choose_device(const DeviceRequest& request, Log& log) {
  if (request.wanted == "cpu") return std::string(kCpu);
  Status ready = open_cuda(request.gpus_are_hidden);
  if (ready.has_value()) {
    const auto kernels = CudaKernels::open(request.kernels);
    // `unavailable`, because not_found would mean that there is no GPU.
    if (!kernels) ready = fail(Code::unavailable, kernels.error().message);
  }
  if (ready.has_value()) return std::string(kCuda);
  if (request.wanted == "auto") {
    if (ready.error().code != Code::not_found) {
      log.warn("train", "the GPU cannot be used, so the CPU computes: " + ready.error().message);
    }
    return std::string(kCpu);
  }
  return ready.error()
      .at("train.device = " + request.wanted)
      .at("a GPU is asked for; --set train.device=cpu trains without");
}

}  // namespace tern
