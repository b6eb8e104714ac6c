// tern_cuda_prepare() in plain C++: what the kernel is held to, bit for bit. For tests; slow.
#pragma once

#include <cstdint>

#include "cuda/tern_cuda.h"

namespace tern {

// As tern_cuda_prepare(), but all pointers are to host memory. REQUIRES: a valid `prepare`.
void prepare_reference(const TernCudaPrepare& prepare);

// To the nearest, ties to even; what is too large becomes infinity. The 16 bits are returned.
uint16_t to_f16(float value);
uint16_t to_bf16(float value);

}  // namespace tern
