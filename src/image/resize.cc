#include "image/resize.h"

#include <algorithm>
#include <array>

#include "image/planes.h"
#include "image/resize_simd.h"
#include "image/resize_weights.h"

namespace tern {

struct Resizer::State {
  FilterAxis horizontal;
  FilterAxis vertical;
  ColumnFilter columns;
  VectorMemory<uint8_t> row;          // one row of the source, in three planes
  VectorMemory<uint16_t> ring;        // rows that have been through the first pass
  std::vector<const uint16_t*> rows;  // of the ring, for the result at hand
  std::vector<uint8_t> mirrored;      // one row, for a mirrored copy
};

namespace {

bool is_whole(const TouchedPixels& touched, int32_t results) {
  return touched.offset == 0 && touched.length == results && touched.count == results;
}

// One row of pixels of the part.
struct Source {
  const Pixels& pixels;
  TouchedPixels x;
  TouchedPixels y;

  const uint8_t* row(int32_t number) const {
    const int64_t pixel = int64_t{pixels.size.width} * (y.begin + number) + x.begin;
    return pixels.rgb.data() + pixel * 3;
  }
};

void copy(const Source& source, bool mirror, std::vector<uint8_t>& scratch, uint8_t* out) {
  const auto width = static_cast<size_t>(source.x.count);
  const auto height = static_cast<size_t>(source.y.count);
  if (mirror) scratch.resize(3 * width);
  for (size_t y = 0; y < height; ++y) {
    const uint8_t* row = source.row(static_cast<int32_t>(y));
    uint8_t* to = out + y * width;
    if (!mirror) {
      split_rgb(row, width, to, width * height);
      continue;
    }
    split_rgb(row, width, scratch.data(), width);
    for (size_t c = 0; c < 3; ++c) {
      reverse_bytes(scratch.data() + c * width, width, to + c * width * height);
    }
  }
}

// The first pass where the results are too far apart for filter_row().
void filter_far_row(const FilterAxis& axis, const uint8_t* in, size_t in_stride, uint16_t* out,
                    size_t out_stride) {
  for (size_t i = 0; i < axis.first.size(); ++i) {
    const uint16_t* weights = axis.of(static_cast<int32_t>(i));
    for (size_t c = 0; c < 3; ++c) {
      const uint8_t* pixels = in + c * in_stride + axis.first[i];
      const uint8_t level = weighted_sum(axis.taps, axis.count[i], weights,
                                         [pixels](int32_t k) { return pixels[k]; });
      out[c * out_stride + i] = static_cast<uint16_t>(level << 8);
    }
  }
}

// The second pass where a result has too many taps for filter_column().
void filter_long_column(std::span<const uint16_t* const> rows, const uint16_t* weights,
                        int32_t taps, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = weighted_sum(taps, static_cast<int32_t>(rows.size()), weights, [&](int32_t k) {
      return static_cast<uint8_t>(rows[static_cast<size_t>(k)][i] >> 8);
    });
  }
}

}  // namespace

Resizer::Resizer() : state_(std::make_unique<State>()) {}
Resizer::~Resizer() = default;

void Resizer::resize(const Pixels& pixels, const View& view, std::span<uint8_t> out) {
  State& state = *state_;
  const Source source{pixels, touched_pixels(view.left, view.width, pixels.size.width),
                      touched_pixels(view.top, view.height, pixels.size.height)};
  const auto width = static_cast<size_t>(view.out_width);
  const auto height = static_cast<size_t>(view.out_height);
  TERN_CHECK(out.size() == 3 * width * height);
  if (is_whole(source.x, view.out_width) && is_whole(source.y, view.out_height)) {
    copy(source, view.mirror, state.mirrored, out.data());
    return;
  }
  fill_axis(source.x, view.out_width, view.mirror ? Mirror::yes : Mirror::no, state.horizontal);
  fill_axis(source.y, view.out_height, Mirror::no, state.vertical);
  fill_columns(state.horizontal, state.columns);

  const auto in_width = static_cast<size_t>(source.x.count);
  const auto taps = static_cast<size_t>(state.vertical.taps);
  const size_t in_stride = in_width + static_cast<size_t>(state.horizontal.taps) + kRowPadding;
  const size_t out_stride = state.columns.groups() * kGroup;
  uint8_t* row = state.row.at_least(3 * in_stride);
  uint16_t* ring = state.ring.at_least(taps * 3 * out_stride);
  const auto slot = [&](int32_t number) {
    return ring + static_cast<size_t>(number) % taps * 3 * out_stride;
  };

  int32_t done = 0;  // rows of the source that have been through the first pass
  for (int32_t y = 0; y < view.out_height; ++y) {
    const int32_t first = state.vertical.first[static_cast<size_t>(y)];
    const int32_t count = state.vertical.count[static_cast<size_t>(y)];
    // Rows that no result needs are passed over.
    for (done = std::max(done, first); done < first + count; ++done) {
      split_rgb(source.row(done), in_width, row, in_stride);
      if (state.columns.windows != 0) {
        filter_row(state.columns, row, in_stride, slot(done), out_stride);
      } else {
        filter_far_row(state.horizontal, row, in_stride, slot(done), out_stride);
      }
    }
    state.rows.clear();
    for (int32_t k = 0; k < count; ++k) state.rows.push_back(slot(first + k));
    for (size_t c = 0; c < 3; ++c) {
      uint8_t* to = out.data() + (c * height + static_cast<size_t>(y)) * width;
      const uint16_t* weights = state.vertical.of(y);
      const auto pass = state.vertical.taps > kShortSumTapsMax ? filter_long_column : filter_column;
      pass(state.rows, weights, state.vertical.taps, width, to);
      for (const uint16_t*& from : state.rows) from += out_stride;
    }
  }
}

}  // namespace tern
