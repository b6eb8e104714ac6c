// Our CUDA kernels from C++: libtern_cuda.so, opened by dlopen, so that a machine without a GPU
// runs the same programs. Needs neither CUDA's headers nor LibTorch's.
//
//   ASSIGN_OR_RETURN(auto kernels,
//   CudaKernels::open(kernels_path("/opt/tern/libexec/tern-train")));
//   RETURN_IF_ERROR(kernels->prepare({.images = ..., .type = TERN_CUDA_F32}, stream));
#pragma once

#include <filesystem>
#include <memory>

#include "core/result.h"
#include "cuda/tern_cuda.h"

namespace tern {

// Where libtern_cuda.so belongs: lib/ beside `tern`, or beside the bin/ or libexec/ that the
// program is in. `executable` is /proc/self/exe's target.
std::filesystem::path kernels_path(const std::filesystem::path& executable);

// The library's functions. Holds no state: safe from any thread, and each call works on the CUDA
// device that is current for its thread. The library stays loaded until the process ends, since its
// kernels may still run when this object goes. No call waits for the GPU.
class CudaKernels {
 public:
  // Loads `library`, and with it libcudart.so.13 unless LibTorch has. not_found where this tern has
  // no kernels; failed_precondition where they do not load or are of another build.
  static Result<std::unique_ptr<CudaKernels>> open(const std::filesystem::path& library);

  // Puts the work on `stream` (a cudaStream_t; null is the default one). Fails for what can be seen
  // before the kernel runs; what happens in it, the next synchronisation tells.
  Status prepare(const TernCudaPrepare& prepare, void* stream) const;

  // The 16-bit type to compute in on `device`: bf16 from compute capability 8.0 on, fp16 below.
  Result<TernCudaType> half_type(int device) const;

 private:
  struct Functions {
    decltype(&tern_cuda_interface) interface = nullptr;
    decltype(&tern_cuda_prepare) prepare = nullptr;
    decltype(&tern_cuda_half_type) half_type = nullptr;
    decltype(&tern_cuda_error) error = nullptr;
  };
  explicit CudaKernels(const Functions& functions) : functions_(functions) {}
  Status status_of(int32_t error) const;

  const Functions functions_;
};

}  // namespace tern
