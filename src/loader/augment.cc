#include "loader/augment.h"

#include <algorithm>
#include <cstdlib>

#include "core/result.h"

namespace tern {
namespace {

// Uniform in [0, bound) from exactly one draw. Random::below() may draw again to be exactly
// uniform; here the bias is at most bound / 2^32, and bounds are below 130.
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

void augment_image(std::span<const uint8_t> in, std::span<uint8_t> out, ImageShape shape,
                   const AugmentOptions& options, Random& random) {
  TERN_CHECK(static_cast<int64_t>(in.size()) == shape.bytes() && out.size() == in.size());
  const int64_t pad = options.pad_crop;
  const int64_t down = pad > 0 ? draw_below(random, 2 * pad + 1) - pad : 0;
  const int64_t right = pad > 0 ? draw_below(random, 2 * pad + 1) - pad : 0;
  const bool mirror = options.flip && draw_below(random, 2) == 1;

  const auto width = static_cast<size_t>(shape.width);
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    for (int64_t y = 0; y < shape.height; ++y) {
      const int64_t first_row = channel * shape.height;
      const auto row = out.subspan(static_cast<size_t>(first_row + y) * width, width);
      const int64_t source_y = y + down;
      if (source_y < 0 || source_y >= shape.height) {
        std::ranges::fill(row, uint8_t{0});
        continue;
      }
      shift_row(in.subspan(static_cast<size_t>(first_row + source_y) * width, width), row, right);
      if (mirror) std::ranges::reverse(row);
    }
  }
}

}  // namespace tern
