// Random changes to one image, so that the model never sees quite the same one twice.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"
#include "dataset/dataset.h"
#include "loader/options.h"

namespace tern {

// True if augment_image() with these options is more than a copy.
bool augments(const AugmentOptions& options);

// Writes `in`, padded and cropped, then perhaps mirrored, to `out`. A pure function of its
// arguments; draws two numbers from `random` for the crop if it is on and one for the flip if it is
// on, whatever their values. REQUIRES: both spans hold shape.bytes() and do not overlap.
void augment_image(std::span<const uint8_t> in, std::span<uint8_t> out, ImageShape shape,
                   const AugmentOptions& options, Random& random);

}  // namespace tern
