// Which pixels make each pixel of a resized row or column, and with which weights.
//
// The rule is Pillow's (its src/libImaging/Resample.c): a triangle as wide as the step between two
// results, but never narrower than two pixels, centred on the result's place in the source. The sum
// is whole-number arithmetic, the same on every machine: see weighted_sum().
#pragma once

#include <cstdint>
#include <vector>

#include "image/image.h"

namespace tern {

// The weights are fractions of it: 16 bits.
inline constexpr int32_t kWeightOne = 65'536;
// Up to so many weights the products are rounded one by one to 1/256 of a level, which vectors of
// 16 bits hold; the error is at most taps / 512 levels. With more they are summed in 32 bits.
inline constexpr int32_t kShortSumTapsMax = 64;

// One direction of a part: the whole pixels that it touches, and where it lies among them.
struct TouchedPixels {
  int32_t begin = 0;  // in the image
  int32_t count = 0;  // at least 1
  double offset = 0;  // of the part in the first of them: 0 <= offset < 1
  double length = 0;  // of the part
};

// REQUIRES: 0 <= begin, length > 0, begin + length <= size but for rounding.
TouchedPixels touched_pixels(double begin, double length, int32_t size);

// The weights of one direction. Kept and filled again, so that its memory is taken once.
struct FilterAxis {
  int32_t taps = 0;               // the most that one result has
  int32_t stride = 0;             // of `weights` from one result to the next; at least taps
  std::vector<int32_t> first;     // for each result, the first pixel that it needs, from `begin`
  std::vector<int32_t> count;     // and how many, at least 1
  std::vector<uint16_t> weights;  // [result * stride + tap]; zero from count on
  std::vector<double> exact;      // scratch: one result's weights before rounding

  const uint16_t* of(int32_t result) const {
    return weights.data() + static_cast<size_t>(result) * static_cast<size_t>(stride);
  }
};

enum class Mirror : bool { no, yes };

// Fills `axis` for `results` results; mirrored, the first of them is the last. The weights of a
// result sum to kWeightOne exactly, but a single one is kWeightOne - 1, so that it fits. REQUIRES:
// results >= 1.
void fill_axis(const TouchedPixels& touched, int32_t results, Mirror mirror, FilterAxis& axis);

// What rounds a sum of `taps` products to the nearest level: a half, and a half of 1/256 for each
// product that was cut off.
inline uint16_t rounding(int32_t taps) { return static_cast<uint16_t>(128 + taps / 2); }

// The arithmetic, for one result: `pixel(k)` is the k-th pixel, 0 to 255. The vectors do the same.
// `taps` is FilterAxis::taps, whatever the result's own count: it decides how the sum is taken.
template <typename Pixel>
uint8_t weighted_sum(int32_t taps, int32_t count, const uint16_t* weights, Pixel pixel) {
  uint32_t sum = 0;
  if (taps > kShortSumTapsMax) {
    for (int32_t k = 0; k < count; ++k) sum += uint32_t{pixel(k)} * weights[k];
    return static_cast<uint8_t>((sum + kWeightOne / 2) / kWeightOne);
  }
  for (int32_t k = 0; k < count; ++k) sum += (uint32_t{pixel(k)} << 8) * weights[k] / kWeightOne;
  return static_cast<uint8_t>((sum + rounding(taps)) >> 8);
}

}  // namespace tern
