// The convolution of the networks: LibTorch's, and on a CPU our own where the map is small.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace tern {

// As torch::conv2d without bias, on square kernels: x is (N, in, H, W), weight (out, in, k, k).
//
// Where a CPU is to give a map of few pixels, channels last in memory, most taps of the kernel fall
// into the padding, and oneDNN forms the weights' gradient of what is left at a fraction of a
// matrix product's speed. There each pair of an output and an input pixel that a tap joins is one
// matrix product over the batch. Sums are formed in a fixed order, so that equal inputs give equal
// bits.
torch::Tensor convolve(const torch::Tensor& x, const torch::Tensor& weight, int64_t stride,
                       int64_t padding);

}  // namespace tern
