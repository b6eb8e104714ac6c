// Which part of an image a batch sees, and at which size. Pure functions: the loader draws, the
// data set decodes. None fails; images have at least one pixel.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "dataset/dataset.h"
#include "image/image.h"
#include "loader/options.h"

namespace tern {

// For training: a part of random area and aspect ratio, somewhere, resized to size x size
// (torchvision's RandomResizedCrop: ten tries, then the centre). Draws from `random`; mirror is
// left false.
View draw_resized_crop(const ImageOptions& options, ImageSize image, Random& random);

// For evaluation: as if resized so that the short side is evaluate_resize (at least size), then the
// centre size x size cut out. Which pixels that are is rounded as torchvision's Resize and
// CenterCrop round.
View centre_view(const ImageOptions& options, ImageSize image);

// Rectangular validation: the same rule, but the result keeps the aspect ratio `ratio` (width /
// height) of its batch: short side `size`, long side that times the ratio, rounded to a multiple of
// 32, at least size and at most twice. An image that would not fill it is enlarged further.
View rectangular_view(const ImageOptions& options, ImageSize image, double ratio);
// The size of that; channels are left to the caller. Its own width / height, taken as the ratio,
// gives the same shape again.
ImageShape rectangular_shape(const ImageOptions& options, double ratio);

// Samples by aspect ratio (ties by number), so that neighbours can share a batch.
std::vector<int64_t> order_by_aspect_ratio(const Dataset& dataset);

}  // namespace tern
