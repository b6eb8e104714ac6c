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
  std::string stem = "imagenet";
  bool zero_init = false;
  std::string init;
  std::vector<double> mean = {0.5};
  std::vector<double> stddev = {0.5};
};

inline void describe(OptionSet& set, ModelOptions& options) {
  set.add("name", &options.name,
          {.help = "The network: small-cnn (2 convolutions, 2 fully connected layers), "
                   "cifar-tutorial (2 convolutions, 3 fully connected layers), resnet18, resnet34 "
                   "or resnet50 (torchvision's).",
           .choices = {"small-cnn", "cifar-tutorial", "resnet18", "resnet34", "resnet50"}});
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
  set.add("stem", &options.stem,
          {.help = "resnet: how it begins: imagenet (7x7 with stride 2, then pooling: for images "
                   "of about 224 px) or small (3x3, nothing lost: for 32 to 64 px).",
           .choices = {"imagenet", "small"}});
  set.add("zero_init", &options.zero_init,
          {.help = "resnet: begin with the last batch norm of each block at 0, so that every block "
                   "does nothing at first."});
  set.add("init", &options.init,
          {.help = "Weights to begin with instead of random ones: a .safetensors file, or a .pth "
                   "with a state dict, under torchvision's names; also s3://bucket/name, gs:// or "
                   "az://account/container/name. Read once, when the run begins. The last layer "
                   "stays random where the classes differ in number. --init FILE is short for it. "
                   "Empty: none.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add(
      "mean", &options.mean,
      {.help = "Subtracted from each pixel (0 to 1) on the device: one value, or one a channel; an "
               "empty list takes what an imported data set recorded.",
       .min = 0,
       .max = 1});
  set.add("stddev", &options.stddev,
          {.help = "Each pixel is then divided by this: one value, or one a channel; likewise.",
           .min = 0,
           .max = 100,
           .above_min = true});
}

}  // namespace tern
