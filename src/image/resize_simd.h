// The two passes of Resizer in vectors, for the best instructions that the machine has. All of
// them, and the plain loops for machines without any, give weighted_sum()'s bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "image/resize_weights.h"

namespace tern {

// Memory for vectors of T: aligned, grown and never shrunk. What it held is lost when it grows.
template <typename T>
class VectorMemory {
 public:
  T* at_least(size_t count) {
    if (count > size_) {
      size_ = 0;
      memory_.reset(new (kAlignment) T[count]);
      std::fill_n(memory_.get(), count, T{});
      size_ = count;
    }
    return memory_.get();
  }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }

 private:
  // As Highway's own: the longest vectors, and two cache lines.
  static constexpr std::align_val_t kAlignment{128};
  struct Free {
    void operator()(T* memory) const { operator delete[](memory, kAlignment); }
  };

  std::unique_ptr<T[], Free> memory_;
  size_t size_ = 0;
};

// The first pass works on groups of so many results; a finished row has a whole number of groups.
inline constexpr int32_t kGroup = 16;
// A vector's block of 16 bytes makes 8 results: half a group.
inline constexpr int32_t kBlock = 8;
// Rows of pixels have so many bytes more than pixels, which may be read and do not count, besides
// one for each tap.
inline constexpr size_t kRowPadding = 64;

// A FilterAxis laid out for the first pass. For each block of results it has the first pixel
// needed, and each result's distance from that as a shuffle: tap k of all 8 is one load of 16 bytes
// (or two, `windows`) from that pixel plus k, one shuffle and one product.
struct ColumnFilter {
  int32_t results = 0;
  int32_t taps = 0;
  int32_t windows = 0;             // 1 or 2; 0: steps too long for this, weighted_sum() does it
  bool is_near = false;            // the first window holds all taps of its block
  std::vector<int32_t> base;       // [group][2]
  VectorMemory<uint8_t> shuffles;  // [group][window][2 * 16 bytes]
  VectorMemory<uint16_t> weights;  // [group][tap][16]

  size_t groups() const { return static_cast<size_t>((results + kGroup - 1) / kGroup); }
};
void fill_columns(const FilterAxis& axis, ColumnFilter& columns);

// First pass: three rows of pixels, `in_stride` bytes apart, become three rows of levels, in the
// high byte of 16 bits each, `out_stride` apart. REQUIRES: windows != 0; in_stride >= the pixels +
// taps + kRowPadding; out_stride >= groups() * kGroup.
void filter_row(const ColumnFilter& columns, const uint8_t* in, size_t in_stride, uint16_t* out,
                size_t out_stride);

// Second pass: rows[k] + i, weighted by weights[k], make out[i]. `taps` is the axis's, see
// weighted_sum(). REQUIRES: taps <= kShortSumTapsMax; every row may be read to i = count - 1.
void filter_column(std::span<const uint16_t* const> rows, const uint16_t* weights, int32_t taps,
                   size_t count, uint8_t* out);

}  // namespace tern
