// Libraries that look like libtern_cuda.so, for kernels_test.cc: one that returns the errors it is
// asked for, one of another interface, one that lacks a function.
#include "cuda/tern_cuda.h"

int32_t tern_cuda_interface(void) { return TERN_CUDA_INTERFACE + FAKE_INTERFACE_AHEAD; }

// The image count is the error.
int32_t tern_cuda_prepare(const TernCudaPrepare* prepare, void* /*stream*/) {
  return static_cast<int32_t>(prepare->count);
}

// GPU 1 does not exist.
int32_t tern_cuda_half_type(int32_t device, int32_t* type) {
  *type = TERN_CUDA_BF16;
  return device == 1 ? 101 : 0;
}

#if FAKE_HAS_ERROR
const char* tern_cuda_error(int32_t /*error*/) { return "so it said"; }
#endif
