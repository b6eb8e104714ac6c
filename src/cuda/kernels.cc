#include "cuda/kernels.h"

#include <dlfcn.h>

#include <string>
#include <system_error>

namespace tern {

namespace fs = std::filesystem;

namespace {

// Of cudaError_t, whose numbers CUDA keeps.
constexpr int32_t kOutOfMemory = 2;
constexpr int32_t kDriverTooOld = 35;
constexpr int32_t kNoKernelForThisGpu = 209;
constexpr int32_t kPtxNeedsNewerDriver = 222;

std::string loader_message() {
  const char* message = dlerror();
  return message == nullptr ? "no reason given" : message;
}

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Error of_another_build(const fs::path& library, const std::string& how) {
  return fail(Code::failed_precondition,
              library.string() + " is not of the same build as this program (" + how +
                  "). Build or install Tern again, or train on the CPU.");
}

}  // namespace

fs::path kernels_path(const fs::path& executable) {
  fs::path home = executable.parent_path();
  if (home.filename() == "libexec" || home.filename() == "bin") home = home.parent_path();
  return home / "lib" / "libtern_cuda.so";
}

Result<std::unique_ptr<CudaKernels>> CudaKernels::open(const fs::path& library) {
  std::error_code error;
  if (!fs::exists(library, error)) {
    return fail(Code::not_found,
                library.string() +
                    " is not there: this Tern was built without its GPU kernels. Build it again "
                    "after scripts/fetch-nvcc, or train on the CPU.");
  }
  // Absolute, or dlopen would look for a bare name in the library path. NODELETE: it stays.
  const fs::path path = fs::absolute(library, error);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    return fail(Code::failed_precondition,
                "the GPU kernels could not be loaded: " + loader_message() +
                    ". They need libcudart.so.13, which a LibTorch for CUDA 13 brings along: "
                    "point TERN_LIBTORCH at one, or train on the CPU.");
  }
  Functions functions;
  if (!look_up(handle, "tern_cuda_interface", functions.interface) ||
      !look_up(handle, "tern_cuda_prepare", functions.prepare) ||
      !look_up(handle, "tern_cuda_half_type", functions.half_type) ||
      !look_up(handle, "tern_cuda_error", functions.error)) {
    return of_another_build(library, loader_message());
  }
  const int32_t interface = functions.interface();
  if (interface != TERN_CUDA_INTERFACE) {
    return of_another_build(library, "its interface is " + std::to_string(interface) + " and not " +
                                         std::to_string(TERN_CUDA_INTERFACE));
  }
  return std::unique_ptr<CudaKernels>(new CudaKernels(functions));
}

Status CudaKernels::prepare(const TernCudaPrepare& prepare, void* stream) const {
  return status_of(functions_.prepare(&prepare, stream)).at("prepare a batch on the GPU");
}

Result<TernCudaType> CudaKernels::half_type(int device) const {
  int32_t type = 0;
  RETURN_IF_ERROR(status_of(functions_.half_type(device, &type))
                      .at("ask for the 16-bit type of GPU " + std::to_string(device)));
  return static_cast<TernCudaType>(type);
}

Status CudaKernels::status_of(int32_t error) const {
  const std::string words =
      std::string(functions_.error(error)) + " (CUDA error " + std::to_string(error) + ")";
  switch (error) {
    case 0: return {};
    case kOutOfMemory:
      return fail(Code::exhausted, words + ". Lower the batch size, or free the GPU's memory.");
    case kDriverTooOld:
    case kPtxNeedsNewerDriver:
      return fail(Code::failed_precondition,
                  words + ". Update NVIDIA's driver to one for CUDA 13, or train on the CPU.");
    case kNoKernelForThisGpu:
      return fail(Code::failed_precondition,
                  words +
                      ". The kernels run on compute capability 7.5 and newer: use such a GPU, "
                      "or train on the CPU.");
    default:
      return fail(Code::internal, words +
                                      ". If nvidia-smi shows a healthy GPU, this is a bug in "
                                      "Tern; train on the CPU until it is mended.");
  }
}

}  // namespace tern
