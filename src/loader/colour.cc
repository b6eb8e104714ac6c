#include "loader/colour.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/result.h"

namespace tern {
namespace {

using Change = ColourDraw::Change;

// Fractional bits. A factor of at most 2 times a pixel of 8 bits, brought to the bits of factor
// times grey, stays below 2^30.
constexpr int kFactorBits = 12;
constexpr int kGreyBits = 8;
constexpr int32_t kOne = 1 << kFactorBits;

// All orders of three, in alphabetical order; the draw picks one.
constexpr std::array<std::array<Change, 3>, 6> kOrders = {{
    {Change::brightness, Change::contrast, Change::saturation},
    {Change::brightness, Change::saturation, Change::contrast},
    {Change::contrast, Change::brightness, Change::saturation},
    {Change::contrast, Change::saturation, Change::brightness},
    {Change::saturation, Change::brightness, Change::contrast},
    {Change::saturation, Change::contrast, Change::brightness},
}};

float draw_factor(Random& random, double strength) {
  const double low = std::max(0.0, 1 - strength);
  return static_cast<float>(low + (1 + strength - low) * static_cast<double>(random.uniform()));
}

// factor * value + (1 - factor) * grey, rounded and kept within a byte. `grey` has kGreyBits.
uint8_t blend(int32_t value, int32_t factor, int32_t grey) {
  constexpr int kBits = kFactorBits + kGreyBits;
  const int32_t sum = value * factor * (1 << kGreyBits) + (kOne - factor) * grey;
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kBits - 1))) >> kBits, 0, 255));
}

// ITU-R 601's grey, as Pillow and torchvision compute it, with kGreyBits. The weights add up to
// 2^16.
int32_t grey_of(int32_t red, int32_t green, int32_t blue) {
  return (red * 19'595 + green * 38'470 + blue * 7'471) >> (16 - kGreyBits);
}

// The mean of all pixels' grey, with kGreyBits; of an image without colours, that of its bytes.
int32_t mean_grey(std::span<const uint8_t> image, ImageShape shape) {
  const auto pixels = static_cast<size_t>(shape.height * shape.width);
  int64_t sum = 0;
  if (shape.channels == 3) {
    const uint8_t* const red = image.data();
    for (size_t i = 0; i < pixels; ++i) {
      sum += grey_of(red[i], red[pixels + i], red[2 * pixels + i]);
    }
    return static_cast<int32_t>(sum / static_cast<int64_t>(pixels));
  }
  for (const uint8_t value : image) sum += value;
  return static_cast<int32_t>((sum << kGreyBits) / shape.bytes());
}

// Every byte is blended with the same grey, so a table of 256 does it.
void blend_all(std::span<uint8_t> image, int32_t factor, int32_t grey) {
  std::array<uint8_t, 256> table;
  for (int32_t value = 0; value < 256; ++value) {
    table[static_cast<size_t>(value)] = blend(value, factor, grey);
  }
  for (uint8_t& value : image) value = table[value];
}

void saturate(std::span<uint8_t> image, size_t pixels, int32_t factor) {
  uint8_t* const red = image.data();
  uint8_t* const green = red + pixels;
  uint8_t* const blue = green + pixels;
  for (size_t i = 0; i < pixels; ++i) {
    const int32_t grey = grey_of(red[i], green[i], blue[i]);
    red[i] = blend(red[i], factor, grey);
    green[i] = blend(green[i], factor, grey);
    blue[i] = blend(blue[i], factor, grey);
  }
}

}  // namespace

bool jitters(const AugmentOptions& options) {
  return options.brightness > 0 || options.contrast > 0 || options.saturation > 0;
}

ColourDraw draw_colour(const AugmentOptions& options, Random& random) {
  ColourDraw draw;
  draw.order = kOrders[(uint64_t{random.next()} * kOrders.size()) >> 32];
  const auto factor = [&](Change change) -> float& {
    return draw.factor[static_cast<size_t>(change)];
  };
  factor(Change::brightness) = draw_factor(random, options.brightness);
  factor(Change::contrast) = draw_factor(random, options.contrast);
  factor(Change::saturation) = draw_factor(random, options.saturation);
  return draw;
}

void change_colour(std::span<uint8_t> image, ImageShape shape, const ColourDraw& draw) {
  TERN_CHECK(static_cast<int64_t>(image.size()) == shape.bytes());
  if (image.empty()) return;
  for (const Change change : draw.order) {
    const float drawn = draw.factor[static_cast<size_t>(change)];
    const auto factor = static_cast<int32_t>(std::lround(drawn * float{kOne}));
    TERN_CHECK(factor >= 0 && factor <= 2 * kOne);
    if (factor == kOne) continue;
    if (change == Change::brightness) {
      blend_all(image, factor, 0);
    } else if (change == Change::contrast) {
      blend_all(image, factor, mean_grey(image, shape));
    } else if (shape.channels == 3) {
      saturate(image, static_cast<size_t>(shape.height * shape.width), factor);
    }
  }
}

}  // namespace tern
