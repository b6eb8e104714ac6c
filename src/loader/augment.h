// Random changes to one image, so that the model never sees quite the same one twice.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"
#include "dataset/dataset.h"
#include "loader/options.h"

namespace tern {

// What is done to one image: out[y][x] = in[y + down][x + right], black outside; then mirrored left
// to right if `mirror`. Whoever applies it, this machine's CPU or a device, gets the same pixels.
struct AugmentDraw {
  int8_t down = 0;
  int8_t right = 0;
  bool mirror = false;

  bool operator==(const AugmentDraw&) const = default;
};

// True if these options ever draw more than a copy.
bool augments(const AugmentOptions& options);

// Draws two numbers from `random` for the crop if it is on and one for the flip if it is on,
// whatever their values. REQUIRES: pad_crop fits AugmentDraw; the option allows half of that.
AugmentDraw draw_augment(const AugmentOptions& options, Random& random);

// Writes `in`, moved and perhaps mirrored, to `out`. A pure function of its arguments.
// REQUIRES: both spans hold shape.bytes() and do not overlap.
void augment_image(std::span<const uint8_t> in, std::span<uint8_t> out, ImageShape shape,
                   AugmentDraw draw);

}  // namespace tern
