// No LibTorch here: `tern` reads run files without loading it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/options.h"

namespace tern {

struct ModelOptions {
  std::string name = "small-cnn";
  int64_t width = 32;
  double dropout = 0.0;
  std::vector<double> mean = {0.5};
  std::vector<double> stddev = {0.5};
};

inline void describe(OptionSet& set, ModelOptions& options) {
  set.add("name", &options.name,
          {.help = "The network: small-cnn (2 convolutions, 2 fully connected layers) or "
                   "cifar-tutorial (2 convolutions, 3 fully connected layers).",
           .choices = {"small-cnn", "cifar-tutorial"}});
  set.add("width", &options.width,
          {.help = "small-cnn: channels of the first convolution; the second has twice as many. "
                   "Time grows with its square.",
           .min = 1,
           .max = 1024});
  set.add("dropout", &options.dropout,
          {.help = "Share of the features before the last layer that a training step ignores "
                   "(small-cnn only). More resists over-fitting and learns slower.",
           .min = 0,
           .max = 0.9});
  set.add(
      "mean", &options.mean,
      {.help = "Subtracted from each pixel (0 to 1) on the device: one value, or one a channel.",
       .min = 0,
       .max = 1});
  set.add("stddev", &options.stddev,
          {.help = "Each pixel is then divided by this: one value, or one a channel.",
           .min = 0,
           .max = 100,
           .above_min = true});
}

}  // namespace tern
