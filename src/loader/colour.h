// Colour jitter: brightness, contrast and saturation changed at random, as torchvision's
// ColorJitter without hue.
#pragma once

#include <array>
#include <span>

#include "core/random.h"
#include "dataset/dataset.h"
#include "loader/options.h"

namespace tern {

// Three changes in a drawn order, each with a drawn factor; 1 changes nothing.
struct ColourDraw {
  enum class Change : uint8_t { brightness, contrast, saturation };
  std::array<Change, 3> order{Change::brightness, Change::contrast, Change::saturation};
  std::array<float, 3> factor{1, 1, 1};  // by Change

  bool operator==(const ColourDraw&) const = default;
};

bool jitters(const AugmentOptions& options);
// Draws the same number of values whatever they are.
ColourDraw draw_colour(const AugmentOptions& options, Random& random);
// In place. Whole-number arithmetic after the factors are made fixed-point, so every machine gives
// the same bits. Images of one channel have no saturation to change. REQUIRES: shape.bytes() bytes.
void change_colour(std::span<uint8_t> image, ImageShape shape, const ColourDraw& draw);

}  // namespace tern
