#include "loader/augment.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/result.h"

namespace tern {
namespace {

// Uniform in [0, bound) from exactly one draw. Random::below() may draw again to be exactly
// uniform; here the bias is at most bound / 2^32, and bounds are below 256.
int64_t draw_below(Random& random, int64_t bound) {
  return static_cast<int64_t>((uint64_t{random.next()} * static_cast<uint64_t>(bound)) >> 32);
}

// out[x] = in[x + shift], black where that is outside.
void shift_row(std::span<const uint8_t> in, std::span<uint8_t> out, int64_t shift) {
  const auto width = static_cast<int64_t>(in.size());
  if (std::abs(shift) >= width) {
    std::ranges::fill(out, uint8_t{0});
    return;
  }
  const int64_t begin = std::max(-shift, int64_t{0});
  const int64_t end = std::min(width - shift, width);
  std::fill(out.begin(), out.begin() + begin, uint8_t{0});
  std::copy(in.begin() + begin + shift, in.begin() + end + shift, out.begin() + begin);
  std::fill(out.begin() + end, out.end(), uint8_t{0});
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
  const auto width = static_cast<size_t>(shape.width);
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    for (int64_t y = 0; y < shape.height; ++y) {
      const int64_t first_row = channel * shape.height;
      const auto row = out.subspan(static_cast<size_t>(first_row + y) * width, width);
      const int64_t source_y = y + draw.down;
      if (source_y < 0 || source_y >= shape.height) {
        std::ranges::fill(row, uint8_t{0});
        continue;
      }
      shift_row(in.subspan(static_cast<size_t>(first_row + source_y) * width, width), row,
                draw.right);
      if (draw.mirror) std::ranges::reverse(row);
    }
  }
}

}  // namespace tern
