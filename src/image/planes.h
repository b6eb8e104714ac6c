// Between rows of RGB and one plane for each channel (CHW), in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "image/image.h"

namespace tern {

// `count` pixels of RGB to three planes, `stride` bytes apart.
void split_rgb(const uint8_t* rgb, size_t count, uint8_t* planes, size_t stride);

// The reverse.
void join_rgb(const uint8_t* planes, size_t stride, size_t count, uint8_t* rgb);

// `count` bytes, the last first. REQUIRES: the two do not overlap.
void reverse_bytes(const uint8_t* from, size_t count, uint8_t* to);

}  // namespace tern
