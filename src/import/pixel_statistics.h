// Mean and standard deviation of a data set's pixels, which normalisation wants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "core/result.h"
#include "dataset/index.h"

namespace tern {

struct PixelStatistics {
  std::vector<double> mean;  // 0 to 1, by channel
  std::vector<double> stddev;
  int64_t samples = 0;  // that they are from
};

// Of at most `samples_max` samples of train, spread evenly over it; every pixel counts the same.
// The same bits whatever `threads` is: sums are whole numbers. Samples that do not decode, or have
// another number of channels than the first, are left out. Files are below `root`. Blocks; errors
// are those of the file system, and `cancelled`.
Result<PixelStatistics> measure_pixels(const IndexContent& content,
                                       const std::filesystem::path& root, int64_t samples_max,
                                       int64_t threads, std::stop_token stop);

}  // namespace tern
