// The few functions of CUDA's runtime that the GPU tests need for memory, streams and time, by
// dlopen: the tests are built without CUDA and carried to a machine that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/result.h"

namespace tern {

// All functions return a cudaError_t; pointers to streams and events are CUDA's own. Safe from any
// thread.
struct Cudart {
  int32_t (*get_device_count)(int* count);
  int32_t (*get_attribute)(int* value, int attribute, int device);
  int32_t (*allocate)(void** memory, size_t bytes);
  int32_t (*release)(void* memory);
  int32_t (*free_memory)(size_t* free, size_t* total);
  int32_t (*fill)(void* memory, int value, size_t bytes);
  int32_t (*copy)(void* to, const void* from, size_t bytes, int kind);
  int32_t (*copy_async)(void* to, const void* from, size_t bytes, int kind, void* stream);
  int32_t (*synchronize)();
  int32_t (*create_stream)(void** stream);
  int32_t (*create_event)(void** event);
  int32_t (*record_event)(void* event, void* stream);
  int32_t (*wait_for_event)(void* event);
  int32_t (*elapsed_ms)(float* ms, void* begin, void* end);

  // libcudart.so.13 of the library path, or the file `fallback`. not_found where there is none, or
  // no GPU. It stays loaded.
  static Result<std::unique_ptr<Cudart>> open(const char* fallback);
};

constexpr int kCapabilityMajor = 75;  // cudaDevAttrComputeCapabilityMajor
constexpr int kCopyByPointer = 4;     // cudaMemcpyDefault: the direction follows from the pointers

}  // namespace tern
