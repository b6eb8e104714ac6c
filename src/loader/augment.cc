#include "loader/augment.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/result.h"

namespace tern {
namespace {

// Uniform in [0, bound) from exactly one draw. Random::below() may draw again to be exactly
// uniform; here the bias is at most bound / 2^32, and bounds are below 256.
int64_t draw_below(Random& random, int64_t bound) {
  return static_cast<int64_t>((uint64_t{random.next()} * static_cast<uint64_t>(bound)) >> 32);
}

// memcpy for a few hundred to thousand bytes that are not aligned with each other. glibc's goes
// over to `rep movsb` there, which took four to fourteen times as long on the AMD machine where
// this was measured. The last sixteen may overlap those before.
void copy_pixels(const uint8_t* in, uint8_t* out, int64_t count) {
  if (count < 16) {
    std::memcpy(out, in, static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i + 16 <= count; i += 16) std::memcpy(out + i, in + i, 16);
  std::memcpy(out + count - 16, in + count - 16, 16);
}

// out[x] = in[count - 1 - x]. Eight bytes at a time: one instruction turns them round. The last
// eight may overlap those before.
void copy_mirrored(const uint8_t* in, uint8_t* out, int64_t count) {
  const auto eight = [&](int64_t x) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, in + count - x - 8, 8);
    bytes = __builtin_bswap64(bytes);
    std::memcpy(out + x, &bytes, 8);
  };
  if (count < 8) {
    for (int64_t x = 0; x < count; ++x) out[x] = in[count - 1 - x];
    return;
  }
  for (int64_t x = 0; x + 8 <= count; x += 8) eight(x);
  if (count % 8 != 0) eight(count - 8);
}

// Black for a row's few pixels at the side, where calling memset would take longer than its work.
void clear(uint8_t* at, int64_t count) {
  if (count > 8) {
    std::memset(at, 0, static_cast<size_t>(count));
  } else if (count >= 4) {
    std::memset(at, 0, 4);
    std::memset(at + count - 4, 0, 4);
  } else if (count > 0) {
    at[0] = at[count / 2] = at[count - 1] = 0;
  }
}

// One channel. The pixels that stay in sight are a rectangle of `rows` x `columns`.
void augment_plane(const uint8_t* in, uint8_t* out, int64_t height, int64_t width,
                   AugmentDraw draw) {
  const int64_t down = draw.down;
  const int64_t right = draw.right;
  const int64_t rows = height - std::abs(down);
  const int64_t columns = width - std::abs(right);
  if (rows <= 0 || columns <= 0) {
    std::memset(out, 0, static_cast<size_t>(height * width));
    return;
  }
  const int64_t before = draw.mirror ? std::max(right, int64_t{0}) : std::max(-right, int64_t{0});
  const int64_t behind = width - before - columns;
  const uint8_t* const from = in + std::max(down, int64_t{0}) * width + std::max(right, int64_t{0});
  uint8_t* const first_row = out + std::max(-down, int64_t{0}) * width;
  std::memset(out, 0, static_cast<size_t>(first_row - out));
  if (!draw.mirror) {
    // Both rectangles have rows of the same length, so what lies between their first and last
    // pixels moves in one piece; what it puts beside the rectangle is cleared below.
    copy_pixels(from, first_row + before, (rows - 1) * width + columns);
  }
  for (int64_t y = 0; y < rows; ++y) {
    uint8_t* const row = first_row + y * width;
    if (draw.mirror) copy_mirrored(from + y * width, row + before, columns);
    clear(row, before);
    clear(row + width - behind, behind);
  }
  uint8_t* const end_row = first_row + rows * width;
  std::memset(end_row, 0, static_cast<size_t>(out + height * width - end_row));
}

}  // namespace

bool augments(const AugmentOptions& options) { return options.pad_crop > 0 || options.flip; }

AugmentDraw draw_augment(const AugmentOptions& options, Random& random) {
  const int64_t pad = options.pad_crop;
  TERN_CHECK(pad >= 0 && pad <= std::numeric_limits<int8_t>::max());
  AugmentDraw draw;
  if (pad > 0) {
    draw.down = static_cast<int8_t>(draw_below(random, 2 * pad + 1) - pad);
    draw.right = static_cast<int8_t>(draw_below(random, 2 * pad + 1) - pad);
  }
  if (options.flip) draw.mirror = draw_below(random, 2) == 1;
  return draw;
}

void augment_image(std::span<const uint8_t> in, std::span<uint8_t> out, ImageShape shape,
                   AugmentDraw draw) {
  TERN_CHECK(static_cast<int64_t>(in.size()) == shape.bytes() && out.size() == in.size());
  const int64_t plane = shape.height * shape.width;
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    augment_plane(in.data() + channel * plane, out.data() + channel * plane, shape.height,
                  shape.width, draw);
  }
}

}  // namespace tern
