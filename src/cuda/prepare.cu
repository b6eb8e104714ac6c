// libtern_cuda.so: a batch of uint8 images to normalised numbers on the GPU, cropped and mirrored
// on the way. tern_cuda.h has the interface, prepare_reference.cc the same function in plain C++.
//
// There are only 256 results for a channel. Each block serves one channel: it computes them once,
// with the CPU's operations and roundings, and then looks each pixel up. What is left is memory
// traffic: one byte in and two or four out for each pixel.
#include <cuda_runtime.h>

// All else in this file is hidden (-fvisibility=hidden).
#pragma GCC visibility push(default)
#include "cuda/tern_cuda.h"
#pragma GCC visibility pop

// Named, because nvcc puts a hash of the folder into the symbols of a nameless one.
namespace tern_kernels {

constexpr unsigned kThreads = 256;        // of a block: one for each result in its table
constexpr unsigned kBlocksPerSm = 32;     // 8 fit at a time; more even out the ends
constexpr unsigned kGridSideMax = 65535;  // CUDA's limit for the grid's y and z

struct F32 {
  using Bits = float;
  using Four = float4;
  static __device__ Bits round(float value) { return value; }
};

struct F16 {
  using Bits = unsigned short;
  using Four = ushort4;
  static __device__ Bits round(float value) {
    Bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};

// In integers, since 7.5 has no instruction for it; to the nearest, ties to even.
struct Bf16 {
  using Bits = unsigned short;
  using Four = ushort4;
  static __device__ Bits round(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return 0x7FC0;
    return static_cast<Bits>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
};

// The pixels x to x + 3 of a row, the first in the lowest byte, 0 for those outside it. Reads whole
// words: a word of a row whose width is a multiple of 4 is inside or outside as a whole.
// REQUIRES: `row` is aligned to 4 bytes.
__device__ unsigned four_pixels(const uint8_t* row, int width, int x) {
  const unsigned* words = reinterpret_cast<const unsigned*>(row);
  const unsigned word_count = static_cast<unsigned>(width) / 4;
  const int word = x >> 2;  // rounds down, also below 0
  const unsigned low = static_cast<unsigned>(word) < word_count ? __ldg(words + word) : 0;
  const unsigned high = static_cast<unsigned>(word + 1) < word_count ? __ldg(words + word + 1) : 0;
  return __funnelshift_r(low, high, 8 * (x & 3));
}

__device__ unsigned one_pixel(const uint8_t* row, int width, int x) {
  return static_cast<unsigned>(x) < static_cast<unsigned>(width) ? __ldg(row + x) : 0;
}

// A block: channel blockIdx.x, and of the images and of each one's plane the strides of y and z. A
// thread makes kPixels neighbours of a row at a time, a "group".
template <typename Number, int kPixels>
__global__ void __launch_bounds__(kThreads)
    prepare_kernel(const TernCudaPrepare p, unsigned row_groups, unsigned plane_groups) {
  using Bits = typename Number::Bits;
  __shared__ Bits table[256];
  const float mean = p.mean[blockIdx.x];
  const float stddev = p.stddev[blockIdx.x];
  for (unsigned value = threadIdx.y * blockDim.x + threadIdx.x; value < 256;
       value += blockDim.x * blockDim.y) {
    const float scaled = __fdiv_rn(static_cast<float>(value), 255.0F);
    table[value] = Number::round(__fdiv_rn(__fsub_rn(scaled, mean), stddev));
  }
  __syncthreads();

  // A group's place is the same in every image: worked out once, then used for all of them.
  const int64_t first = int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  const int64_t stride = int64_t{gridDim.y} * blockDim.y;
  const int64_t plane_pixels = int64_t{p.height} * p.width;
  for (unsigned group = blockIdx.z * blockDim.x + threadIdx.x; group < plane_groups;
       group += gridDim.z * blockDim.x) {
    const unsigned y = group / row_groups;
    const unsigned x = (group - y * row_groups) * kPixels;
    const unsigned x_mirrored = p.width - kPixels - x;
    const uint8_t* plane = p.images + (first * p.channels + blockIdx.x) * plane_pixels;
    // From a pixel to the next. The blocks of the other channels fill what lies between; caches
    // make whole lines of it before they reach memory.
    const int64_t step = p.layout == TERN_CUDA_NHWC ? p.channels : 1;
    const int64_t image = p.layout == TERN_CUDA_NHWC
                              ? first * p.channels * plane_pixels + blockIdx.x
                              : plane - p.images;
    Bits* out = static_cast<Bits*>(p.out) + image + (int64_t{y} * p.width + x) * step;
    // Unrolling gains nothing: with 2,048 threads on a multiprocessor there is enough in flight.
#pragma unroll 1
    for (int64_t n = first; n < p.count; n += stride) {
      char4 crop = {0, 0, 0, 0};  // down, right, mirror
      if (p.crops != nullptr) crop = __ldg(reinterpret_cast<const char4*>(p.crops) + n);
      // Unsigned, so that above the image and below it are one comparison, and nothing overflows.
      const unsigned in_y = y + static_cast<unsigned>(static_cast<int>(crop.x));
      const unsigned in_x = (crop.z != 0 ? x_mirrored : x) + static_cast<int>(crop.y);
      const bool inside = in_y < static_cast<unsigned>(p.height);
      const uint8_t* row = plane + int64_t{in_y} * p.width;
      if constexpr (kPixels == 4) {
        unsigned pixels = inside ? four_pixels(row, p.width, static_cast<int>(in_x)) : 0;
        if (crop.z != 0) pixels = __byte_perm(pixels, 0, 0x0123);
        const typename Number::Four four = {table[pixels & 255U], table[(pixels >> 8) & 255U],
                                            table[(pixels >> 16) & 255U], table[pixels >> 24]};
        if (step == 1) {
          *reinterpret_cast<typename Number::Four*>(out) = four;
        } else {
          out[0] = four.x;
          out[step] = four.y;
          out[2 * step] = four.z;
          out[3 * step] = four.w;
        }
      } else {
        *out = table[inside ? one_pixel(row, p.width, static_cast<int>(in_x)) : 0];
      }
      plane += stride * p.channels * plane_pixels;
      out += stride * p.channels * plane_pixels;
    }
  }
}

bool aligned_to(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

size_t bytes_of(int32_t type) { return type == TERN_CUDA_F32 ? 4 : 2; }

bool shape_is_valid(const TernCudaPrepare& p) {
  if (p.count < 0 || p.channels < 1 || p.height < 1 || p.width < 1) return false;
  if (p.type < TERN_CUDA_F32 || p.type > TERN_CUDA_BF16) return false;
  if (p.layout != TERN_CUDA_NCHW && p.layout != TERN_CUDA_NHWC) return false;
  const int64_t plane = int64_t{p.height} * p.width;
  return plane <= INT32_MAX && p.count <= INT64_MAX / 4 / plane / p.channels;
}

bool pointers_are_valid(const TernCudaPrepare& p) {
  return p.images != nullptr && p.mean != nullptr && p.stddev != nullptr && p.out != nullptr &&
         aligned_to(p.mean, 4) && aligned_to(p.stddev, 4) && aligned_to(p.crops, 4) &&
         aligned_to(p.out, bytes_of(p.type));
}

template <int kPixels>
const void* kernel_for(int32_t type) {
  if (type == TERN_CUDA_F16) return reinterpret_cast<const void*>(&prepare_kernel<F16, kPixels>);
  if (type == TERN_CUDA_BF16) return reinterpret_cast<const void*>(&prepare_kernel<Bf16, kPixels>);
  return reinterpret_cast<const void*>(&prepare_kernel<F32, kPixels>);
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t between(int64_t low, int64_t value, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

}  // namespace tern_kernels

using namespace tern_kernels;

int32_t tern_cuda_interface(void) { return TERN_CUDA_INTERFACE; }

int32_t tern_cuda_prepare(const TernCudaPrepare* prepare, void* stream) {
  if (prepare == nullptr || !shape_is_valid(*prepare)) return cudaErrorInvalidValue;
  TernCudaPrepare p = *prepare;
  if (p.count == 0) return cudaSuccess;  // an empty tensor has no memory
  if (!pointers_are_valid(p)) return cudaErrorInvalidValue;

  int device = 0;
  int sm_count = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device);
  }

  const bool by_four =
      p.width % 4 == 0 && aligned_to(p.images, 4) && aligned_to(p.out, 4 * bytes_of(p.type));
  unsigned row_groups = static_cast<unsigned>(by_four ? p.width / 4 : p.width);
  unsigned plane_groups = row_groups * static_cast<unsigned>(p.height);
  const unsigned across = plane_groups < kThreads ? plane_groups : kThreads;
  const dim3 block(across, kThreads / across);
  const int64_t blocks = divide_up(int64_t{sm_count} * kBlocksPerSm, p.channels);
  // The plane is split first: the fewer groups a thread has, the more images it has for each.
  const int64_t z = between(1, divide_up(plane_groups, block.x), between(1, blocks, kGridSideMax));
  const int64_t y = between(1, divide_up(p.count, block.y), between(1, blocks / z, kGridSideMax));
  const dim3 grid(static_cast<unsigned>(p.channels), static_cast<unsigned>(y),
                  static_cast<unsigned>(z));
  if (error == cudaSuccess) {
    void* arguments[] = {&p, &row_groups, &plane_groups};
    error = cudaLaunchKernel(by_four ? kernel_for<4>(p.type) : kernel_for<1>(p.type), grid, block,
                             arguments, 0, static_cast<cudaStream_t>(stream));
  }
  // It is returned, so it must not wait here for the next one to ask, who would take it for his.
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

int32_t tern_cuda_half_type(int32_t device, int32_t* type) {
  if (type == nullptr) return cudaErrorInvalidValue;
  int major = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return error;
  }
  *type = major >= 8 ? TERN_CUDA_BF16 : TERN_CUDA_F16;
  return cudaSuccess;
}

const char* tern_cuda_error(int32_t error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
