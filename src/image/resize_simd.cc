#include "image/resize_simd.h"

#include <algorithm>

// Highway compiles this file once for each kind of machine.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/resize_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "image/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace tern {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// No vectors: the same sums, one by one.
void filter_row_in_vectors(const ColumnFilter& columns, const uint8_t* in, size_t in_stride,
                           uint16_t* out, size_t out_stride) {
  const auto taps = static_cast<size_t>(columns.taps);
  const auto windows = static_cast<size_t>(columns.windows);
  for (size_t i = 0; i < columns.groups() * kGroup; ++i) {
    const size_t group = i / kGroup;
    const size_t lane = i % kGroup;
    const uint8_t* shuffle = columns.shuffles.data() + group * windows * 2 * kGroup + lane * 2 + 1;
    // The window whose shuffle does not say "zero" has the pixel.
    const size_t window = *shuffle < 16 ? 0 : 1;
    const auto base = static_cast<size_t>(columns.base[2 * group + lane / kBlock]);
    const size_t first = base + window * 16 + shuffle[window * 2 * kGroup];
    const uint16_t* weights = columns.weights.data() + group * taps * kGroup + lane;
    for (size_t c = 0; c < 3; ++c) {
      uint32_t sum = rounding(columns.taps);
      for (size_t k = 0; k < taps; ++k) {
        sum += (uint32_t{in[c * in_stride + first + k]} << 8) * weights[k * kGroup] >> 16;
      }
      out[c * out_stride + i] = static_cast<uint16_t>(sum & 0xFF00U);
    }
  }
}

void filter_column_in_vectors(std::span<const uint16_t* const> rows, const uint16_t* weights,
                              int32_t taps, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t sum = rounding(taps);
    for (size_t k = 0; k < rows.size(); ++k) sum += uint32_t{rows[k][i]} * weights[k] >> 16;
    out[i] = static_cast<uint8_t>(sum >> 8);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// At most one group: a wider vector would need more windows than there are to load.
#undef TERN_ONE_BLOCK
#define TERN_ONE_BLOCK (HWY_HAVE_SCALABLE || HWY_MAX_BYTES == 16)
#if TERN_ONE_BLOCK
using Short = hn::FixedTag<uint16_t, kBlock>;
#else
using Short = hn::FixedTag<uint16_t, kGroup>;
#endif
using Byte = hn::Repartition<uint8_t, Short>;
using Shorts = hn::Vec<Short>;
inline constexpr size_t kLanes = hn::MaxLanes(Short());

// 16 bytes for each block of the vector.
HWY_INLINE hn::Vec<Byte> load_windows(const uint8_t* first, const uint8_t* second) {
  const hn::FixedTag<uint8_t, 16> block;
#if TERN_ONE_BLOCK
  (void)second;
  return hn::LoadU(block, first);
#else
  return hn::Combine(Byte(), hn::LoadU(block, second), hn::LoadU(block, first));
#endif
}

// One block's pixels, in the high bytes.
HWY_INLINE Shorts shuffled(hn::Vec<Byte> window, hn::Vec<Byte> shuffle) {
  return hn::BitCast(Short(), hn::TableLookupBytesOr0(window, shuffle));
}

struct Place {
  const uint8_t* first;   // of the pixels of the vector's first block
  const uint8_t* second;  // and of its second, if it has one
  const uint8_t* shuffles;
  const uint16_t* weights;
  uint16_t* out;
};

// The three channels' sums of one vector of results.
struct Sums {
  Shorts red;
  Shorts green;
  Shorts blue;
};

// One load holds all taps of a channel: the shuffle moves on by one for each.
template <size_t kTaps>
struct Near {
  static HWY_INLINE void add(const Place& at, size_t in_stride, size_t /*taps*/, Sums& sums) {
    const Byte bytes;
    const auto red = load_windows(at.first, at.second);
    const auto green = load_windows(at.first + in_stride, at.second + in_stride);
    const auto blue = load_windows(at.first + 2 * in_stride, at.second + 2 * in_stride);
    const auto one = hn::Set(bytes, 1);
    auto shuffle = hn::Load(bytes, at.shuffles);
    HWY_UNROLL(4)
    for (size_t k = 0; k < kTaps; ++k) {
      const Shorts weight = hn::Load(Short(), at.weights + k * kGroup);
      sums.red = hn::Add(sums.red, hn::MulHigh(shuffled(red, shuffle), weight));
      sums.green = hn::Add(sums.green, hn::MulHigh(shuffled(green, shuffle), weight));
      sums.blue = hn::Add(sums.blue, hn::MulHigh(shuffled(blue, shuffle), weight));
      shuffle = hn::Add(shuffle, one);  // what says "zero" still does
    }
  }
};

// A load for each tap and window.
template <size_t kWindows>
struct Far {
  static HWY_INLINE Shorts tap(const uint8_t* first, const uint8_t* second, hn::Vec<Byte> shuffle,
                               hn::Vec<Byte> next) {
    const Shorts pixels = shuffled(load_windows(first, second), shuffle);
    if constexpr (kWindows == 1) return pixels;
    return hn::Or(pixels, shuffled(load_windows(first + 16, second + 16), next));
  }

  static HWY_INLINE void add(const Place& at, size_t in_stride, size_t taps, Sums& sums) {
    const Byte bytes;
    const auto shuffle = hn::Load(bytes, at.shuffles);
    const auto next = hn::Load(bytes, at.shuffles + (kWindows - 1) * 2 * kGroup);
    for (size_t k = 0; k < taps; ++k) {
      const Shorts weight = hn::Load(Short(), at.weights + k * kGroup);
      const uint8_t* first = at.first + k;
      const uint8_t* second = at.second + k;
      const Shorts red = tap(first, second, shuffle, next);
      const Shorts green = tap(first + in_stride, second + in_stride, shuffle, next);
      const Shorts blue = tap(first + 2 * in_stride, second + 2 * in_stride, shuffle, next);
      sums.red = hn::Add(sums.red, hn::MulHigh(red, weight));
      sums.green = hn::Add(sums.green, hn::MulHigh(green, weight));
      sums.blue = hn::Add(sums.blue, hn::MulHigh(blue, weight));
    }
  }
};

template <typename Taps>
HWY_INLINE void filter_groups(const ColumnFilter& columns, const uint8_t* in, size_t in_stride,
                              uint16_t* out, size_t out_stride) {
  const Short d;
  const auto taps = static_cast<size_t>(columns.taps);
  const auto windows = static_cast<size_t>(columns.windows);
  const Shorts half = hn::Set(d, rounding(columns.taps));
  const Shorts high_byte = hn::Set(d, 0xFF00);
  const size_t results = columns.groups() * kGroup;
  for (size_t i = 0; i < results; i += kLanes) {
    const size_t group = i / kGroup;
    const size_t lane = i % kGroup;
    const int32_t* base = columns.base.data() + i / kBlock;
    const Place at{in + base[0], in + base[kLanes / kBlock - 1],
                   columns.shuffles.data() + (group * windows * kGroup + lane) * 2,
                   columns.weights.data() + group * taps * kGroup + lane, out + i};
    Sums sums{half, half, half};
    Taps::add(at, in_stride, taps, sums);
    hn::Store(hn::And(sums.red, high_byte), d, at.out);
    hn::Store(hn::And(sums.green, high_byte), d, at.out + out_stride);
    hn::Store(hn::And(sums.blue, high_byte), d, at.out + 2 * out_stride);
  }
}

void filter_row_in_vectors(const ColumnFilter& columns, const uint8_t* HWY_RESTRICT in,
                           size_t in_stride, uint16_t* HWY_RESTRICT out, size_t out_stride) {
  if (columns.windows == 2) {
    filter_groups<Far<2> >(columns, in, in_stride, out, out_stride);
    return;
  }
  switch (columns.is_near ? columns.taps : 0) {
    case 1: filter_groups<Near<1> >(columns, in, in_stride, out, out_stride); break;
    case 2: filter_groups<Near<2> >(columns, in, in_stride, out, out_stride); break;
    case 3: filter_groups<Near<3> >(columns, in, in_stride, out, out_stride); break;
    case 4: filter_groups<Near<4> >(columns, in, in_stride, out, out_stride); break;
    default: filter_groups<Far<1> >(columns, in, in_stride, out, out_stride); break;
  }
}

using Wide = hn::ScalableTag<uint16_t>;

// out[i]... out[i + twice the lanes].
HWY_INLINE hn::Vec<hn::Repartition<uint8_t, Wide> > column_sums(
    std::span<const uint16_t* const> rows, const uint16_t* weights, uint16_t round, size_t i) {
  const Wide d;
  const hn::Repartition<uint8_t, Wide> bytes;
  const size_t lanes = hn::Lanes(d);
  auto low = hn::Set(d, round);
  auto high = low;
  for (size_t k = 0; k < rows.size(); ++k) {
    const auto weight = hn::Set(d, weights[k]);
    low = hn::Add(low, hn::MulHigh(hn::LoadU(d, rows[k] + i), weight));
    high = hn::Add(high, hn::MulHigh(hn::LoadU(d, rows[k] + i + lanes), weight));
  }
  return hn::ConcatOdd(bytes, hn::BitCast(bytes, high), hn::BitCast(bytes, low));
}

// kRows is rows.size() where the compiler knows it, so that it keeps the weights in registers.
template <size_t kRows>
HWY_INLINE void filter_whole_vectors(std::span<const uint16_t* const> rows, const uint16_t* weights,
                                     uint16_t round, size_t count, uint8_t* out) {
  const hn::Repartition<uint8_t, Wide> bytes;
  const size_t step = hn::Lanes(bytes);
  std::span<const uint16_t* const> known = rows;
  if constexpr (kRows != 0) known = std::span<const uint16_t* const, kRows>(rows.data(), kRows);
  for (size_t i = 0; i + step <= count; i += step) {
    hn::StoreU(column_sums(known, weights, round, i), bytes, out + i);
  }
  // The rest by a last vector that overlaps the one before.
  if (count % step != 0) {
    hn::StoreU(column_sums(known, weights, round, count - step), bytes, out + count - step);
  }
}

void filter_column_in_vectors(std::span<const uint16_t* const> rows, const uint16_t* weights,
                              int32_t taps, size_t count, uint8_t* out) {
  const uint16_t round = rounding(taps);
  if (count < hn::Lanes(hn::Repartition<uint8_t, Wide>())) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t sum = round;
      for (size_t k = 0; k < rows.size(); ++k) sum += uint32_t{rows[k][i]} * weights[k] >> 16;
      out[i] = static_cast<uint8_t>(sum >> 8);
    }
    return;
  }
  switch (rows.size()) {
    case 1: filter_whole_vectors<1>(rows, weights, round, count, out); break;
    case 2: filter_whole_vectors<2>(rows, weights, round, count, out); break;
    case 3: filter_whole_vectors<3>(rows, weights, round, count, out); break;
    case 4: filter_whole_vectors<4>(rows, weights, round, count, out); break;
    default: filter_whole_vectors<0>(rows, weights, round, count, out); break;
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace tern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tern {

TERN_EXPORT(filter_row_in_vectors);
TERN_EXPORT(filter_column_in_vectors);

namespace {

constexpr uint8_t kShuffleZero = 0x80;

}  // namespace

void fill_columns(const FilterAxis& axis, ColumnFilter& columns) {
  columns.results = static_cast<int32_t>(axis.first.size());
  columns.taps = axis.taps;
  const size_t groups = columns.groups();
  const auto taps = static_cast<size_t>(axis.taps);
  columns.base.assign(groups * 2, 0);
  int32_t longest = 0;
  const auto results = static_cast<size_t>(columns.results);
  for (size_t block = 0; block * kBlock < results; ++block) {
    const auto from = axis.first.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
    const auto to =
        from + static_cast<std::ptrdiff_t>(std::min<size_t>(kBlock, results - block * kBlock));
    const auto [least, most] = std::minmax_element(from, to);
    columns.base[block] = *least;
    longest = std::max(longest, *most - *least);
  }
  columns.windows = longest / 16 + 1;
  columns.is_near = longest + axis.taps <= 16;
  if (columns.windows > 2 || axis.taps > kShortSumTapsMax) {
    columns.windows = 0;
    return;
  }
  const auto windows = static_cast<size_t>(columns.windows);
  uint8_t* shuffles = columns.shuffles.at_least(groups * windows * kGroup * 2);
  uint16_t* weights = columns.weights.at_least(groups * taps * kGroup);
  std::fill_n(shuffles, groups * windows * kGroup * 2, kShuffleZero);
  std::fill_n(weights, groups * taps * kGroup, uint16_t{0});
  for (size_t i = 0; i < groups * kGroup; ++i) {
    const size_t group = i / kGroup;
    const size_t lane = i % kGroup;
    // Results past the end are the block's first pixel with no weight.
    const int32_t far = i < results ? axis.first[i] - columns.base[i / kBlock] : 0;
    // The pixel goes into the high byte of its 16 bits.
    shuffles[((group * windows + static_cast<size_t>(far / 16)) * kGroup + lane) * 2 + 1] =
        static_cast<uint8_t>(far % 16);
    if (i >= results) continue;
    const uint16_t* from = axis.of(static_cast<int32_t>(i));
    for (size_t k = 0; k < taps; ++k) weights[(group * taps + k) * kGroup + lane] = from[k];
  }
}

void filter_row(const ColumnFilter& columns, const uint8_t* in, size_t in_stride, uint16_t* out,
                size_t out_stride) {
  TERN_DISPATCH(filter_row_in_vectors)(columns, in, in_stride, out, out_stride);
}

void filter_column(std::span<const uint16_t* const> rows, const uint16_t* weights, int32_t taps,
                   size_t count, uint8_t* out) {
  TERN_DISPATCH(filter_column_in_vectors)(rows, weights, taps, count, out);
}

}  // namespace tern

#endif  // HWY_ONCE
