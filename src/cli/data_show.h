// Pictures of a data set, for people to look at.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "dataset/dataset.h"
#include "image/image.h"
#include "loader/options.h"

namespace tern {

struct GridOptions {
  int64_t columns = 8;
  int64_t rows = 8;
  int64_t first = 0;  // sample
  uint64_t seed = 1;
  ImageOptions image;  // REQUIRES: size > 0
  AugmentOptions augment;
};

// One sample, upright, at its own size.
Result<Pixels> draw_sample(const Dataset& dataset, int64_t sample);

// Two contact sheets beside each other: samples as evaluation sees them, and as training sees them
// in epoch 0. A sample that cannot be decoded is a red square; its cause is added to `problems`.
Result<Pixels> draw_grid(const Dataset& dataset, const GridOptions& options,
                         std::vector<std::string>& problems);

}  // namespace tern
