#include "image/planes.h"

// Highway compiles this file once for each kind of machine.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/planes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "image/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace tern {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls `work(i)` for whole vectors of `lanes` from 0 to `count`; the last may overlap the one
// before. Returns how many are left to do one by one: all, if they do not fill a vector.
template <typename Work>
HWY_INLINE size_t for_each_vector(size_t count, size_t lanes, Work work) {
  if (count < lanes) return count;
  for (size_t i = 0; i + lanes <= count; i += lanes) work(i);
  if (count % lanes != 0) work(count - lanes);
  return 0;
}

void split_in_vectors(const uint8_t* HWY_RESTRICT rgb, size_t count, uint8_t* HWY_RESTRICT planes,
                      size_t stride) {
  const hn::ScalableTag<uint8_t> d;
  const auto whole = [&](size_t i) HWY_ATTR {
    hn::Vec<decltype(d)> red;
    hn::Vec<decltype(d)> green;
    hn::Vec<decltype(d)> blue;
    hn::LoadInterleaved3(d, rgb + 3 * i, red, green, blue);
    hn::StoreU(red, d, planes + i);
    hn::StoreU(green, d, planes + stride + i);
    hn::StoreU(blue, d, planes + 2 * stride + i);
  };
  const size_t left = for_each_vector(count, hn::Lanes(d), whole);
  for (size_t i = 0; i < left; ++i) {
    for (size_t c = 0; c < 3; ++c) planes[c * stride + i] = rgb[3 * i + c];
  }
}

void join_in_vectors(const uint8_t* HWY_RESTRICT planes, size_t stride, size_t count,
                     uint8_t* HWY_RESTRICT rgb) {
  const hn::ScalableTag<uint8_t> d;
  const auto whole = [&](size_t i) HWY_ATTR {
    hn::StoreInterleaved3(hn::LoadU(d, planes + i), hn::LoadU(d, planes + stride + i),
                          hn::LoadU(d, planes + 2 * stride + i), d, rgb + 3 * i);
  };
  const size_t left = for_each_vector(count, hn::Lanes(d), whole);
  for (size_t i = 0; i < left; ++i) {
    for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = planes[c * stride + i];
  }
}

void reverse_in_vectors(const uint8_t* HWY_RESTRICT from, size_t count, uint8_t* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  const size_t left = count;
#else
  const hn::FixedTag<uint8_t, 16> d;
  alignas(16) static constexpr uint8_t kReversed[16] = {15, 14, 13, 12, 11, 10, 9, 8,
                                                        7,  6,  5,  4,  3,  2,  1, 0};
  const auto order = hn::Load(d, kReversed);
  const auto whole = [&](size_t i) HWY_ATTR {
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, from + i), order), d, to + count - 16 - i);
  };
  const size_t left = for_each_vector(count, 16, whole);
#endif
  for (size_t i = 0; i < left; ++i) to[count - 1 - i] = from[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace tern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tern {

TERN_EXPORT(split_in_vectors);
TERN_EXPORT(join_in_vectors);
TERN_EXPORT(reverse_in_vectors);

void split_rgb(const uint8_t* rgb, size_t count, uint8_t* planes, size_t stride) {
  TERN_DISPATCH(split_in_vectors)(rgb, count, planes, stride);
}

void join_rgb(const uint8_t* planes, size_t stride, size_t count, uint8_t* rgb) {
  TERN_DISPATCH(join_in_vectors)(planes, stride, count, rgb);
}

void reverse_bytes(const uint8_t* from, size_t count, uint8_t* to) {
  TERN_DISPATCH(reverse_in_vectors)(from, count, to);
}

}  // namespace tern

#endif  // HWY_ONCE
