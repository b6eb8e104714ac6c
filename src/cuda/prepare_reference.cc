#include "cuda/prepare_reference.h"

#include <bit>
#include <cmath>

namespace tern {

namespace {

// The pixel of the cropped and mirrored plane at (y, x).
uint8_t pixel_at(const uint8_t* plane, const TernCudaPrepare& p, const TernCudaCrop& crop,
                 int64_t y, int64_t x) {
  const int64_t in_y = y + crop.down;
  const int64_t in_x = (crop.mirror != 0 ? p.width - 1 - x : x) + crop.right;
  if (in_y < 0 || in_y >= p.height || in_x < 0 || in_x >= p.width) return 0;
  return plane[in_y * p.width + in_x];
}

void store(const TernCudaPrepare& p, int64_t at, float value) {
  switch (p.type) {
    case TERN_CUDA_F16: static_cast<uint16_t*>(p.out)[at] = to_f16(value); break;
    case TERN_CUDA_BF16: static_cast<uint16_t*>(p.out)[at] = to_bf16(value); break;
    default: static_cast<float*>(p.out)[at] = value; break;
  }
}

}  // namespace

void prepare_reference(const TernCudaPrepare& prepare) {
  const TernCudaPrepare& p = prepare;
  const int64_t pixels = int64_t{p.height} * p.width;
  const bool is_nhwc = p.layout == TERN_CUDA_NHWC;
  for (int64_t n = 0; n < p.count; ++n) {
    const TernCudaCrop crop = p.crops == nullptr ? TernCudaCrop{} : p.crops[n];
    for (int64_t c = 0; c < p.channels; ++c) {
      const uint8_t* plane = p.images + (n * p.channels + c) * pixels;
      for (int64_t y = 0; y < p.height; ++y) {
        for (int64_t x = 0; x < p.width; ++x) {
          const float scaled = static_cast<float>(pixel_at(plane, p, crop, y, x)) / 255.0F;
          const int64_t pixel = y * p.width + x;
          const int64_t at = is_nhwc ? (n * pixels + pixel) * p.channels + c
                                     : (n * p.channels + c) * pixels + pixel;
          store(p, at, (scaled - p.mean[c]) / p.stddev[c]);
        }
      }
    }
  }
}

uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;                       // not a number
  } else if (magnitude >= 0x477FF000U) {  // 65520, from where on infinity is nearer
    half = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14, the smallest with an exponent of its own
    half = (magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  } else {  // multiples of 2^-24
    half = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::fabs(value), 24)));
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace tern
