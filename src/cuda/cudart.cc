#include "cuda/cudart.h"

#include <dlfcn.h>

#include <string>

namespace tern {

namespace {

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<std::unique_ptr<Cudart>> Cudart::open(const char* fallback) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr && *fallback != '\0') library = dlopen(fallback, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return fail(Code::not_found, std::string("no CUDA runtime: ") + dlerror() +
                                     ". Put its folder into LD_LIBRARY_PATH.");
  }
  auto cudart = std::make_unique<Cudart>();
  if (!look_up(library, "cudaGetDeviceCount", cudart->get_device_count) ||
      !look_up(library, "cudaDeviceGetAttribute", cudart->get_attribute) ||
      !look_up(library, "cudaMalloc", cudart->allocate) ||
      !look_up(library, "cudaFree", cudart->release) ||
      !look_up(library, "cudaMemGetInfo", cudart->free_memory) ||
      !look_up(library, "cudaMemset", cudart->fill) ||
      !look_up(library, "cudaMemcpy", cudart->copy) ||
      !look_up(library, "cudaMemcpyAsync", cudart->copy_async) ||
      !look_up(library, "cudaDeviceSynchronize", cudart->synchronize) ||
      !look_up(library, "cudaStreamCreate", cudart->create_stream) ||
      !look_up(library, "cudaEventCreate", cudart->create_event) ||
      !look_up(library, "cudaEventRecord", cudart->record_event) ||
      !look_up(library, "cudaEventSynchronize", cudart->wait_for_event) ||
      !look_up(library, "cudaEventElapsedTime", cudart->elapsed_ms)) {
    return fail(Code::failed_precondition, std::string("the CUDA runtime lacks a function: ") +
                                               dlerror() + ". Use one of CUDA 13.");
  }
  int count = 0;
  const int32_t error = cudart->get_device_count(&count);
  if (error != 0 || count == 0) {
    return fail(Code::not_found, "no GPU here (CUDA error " + std::to_string(error) +
                                     "). Run this on a machine with one.");
  }
  return cudart;
}

}  // namespace tern
