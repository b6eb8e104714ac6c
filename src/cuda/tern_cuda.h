// The C interface of libtern_cuda.so, our CUDA kernels. The library is loaded by dlopen where a GPU
// is found, so nothing here needs CUDA's headers, and a machine without one runs the same programs.
//
// Every function returns 0 or a cudaError_t, which tern_cuda_error() puts into words. Work is put
// on `stream` (a cudaStream_t) and not waited for; pointers must stay valid until it is done.
#ifndef TERN_CUDA_TERN_CUDA_H_
#define TERN_CUDA_TERN_CUDA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Raised with every change to what is below; the two sides must agree.
#define TERN_CUDA_INTERFACE 2

enum TernCudaType { TERN_CUDA_F32 = 0, TERN_CUDA_F16 = 1, TERN_CUDA_BF16 = 2 };

// How `out` lies in memory: a channel's pixels together, or a pixel's channels.
enum TernCudaLayout { TERN_CUDA_NCHW = 0, TERN_CUDA_NHWC = 1 };

// Where one image is cropped from its padded self: out[y][x] = in[y + down][x + right], black
// outside; then mirrored left to right if `mirror`. The loader draws it (loader/augment.h).
struct TernCudaCrop {
  int8_t down;
  int8_t right;
  uint8_t mirror;
  uint8_t unused;
};

// A batch of uint8 images (N, C, H, W) made into normalised numbers:
//   out = (in / 255 - mean[c]) / stddev[c]
// each operation rounded to float as the CPU does it, then to `type`. All pointers but this struct
// are to device memory, aligned to what they point to (a crop to its 4 bytes). Fastest where the
// width is a multiple of 4 and `images` and `out` are aligned to 4 pixels.
struct TernCudaPrepare {
  const uint8_t* images;
  const struct TernCudaCrop* crops;  // one for each image, or null: none is cropped
  const float* mean;                 // one for each channel
  const float* stddev;
  void* out;
  int64_t count;
  int32_t channels;
  int32_t height;
  int32_t width;
  int32_t type;    // TernCudaType
  int32_t layout;  // TernCudaLayout
};

int32_t tern_cuda_interface(void);
int32_t tern_cuda_prepare(const struct TernCudaPrepare* prepare, void* stream);
// The 16-bit type to compute in on `device`: bf16 from compute capability 8.0 on, fp16 below.
int32_t tern_cuda_half_type(int32_t device, int32_t* type);
// Static text.
const char* tern_cuda_error(int32_t error);

#ifdef __cplusplus
}
#endif

#endif  // TERN_CUDA_TERN_CUDA_H_
