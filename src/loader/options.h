#pragma once

#include <cstdint>
#include <string>

#include "core/options.h"

namespace tern {

struct LoaderOptions {
  int64_t threads = 2;
  int64_t batches_ahead = 4;
};

inline void describe(OptionSet& set, LoaderOptions& options) {
  set.add("threads", &options.threads,
          {.help = "Threads that read and augment samples; 0 does it inside the step loop. Any "
                   "number gives the same batches, bit for bit.",
           .min = 0,
           .max = 256,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("batches_ahead", &options.batches_ahead,
          {.help = "Batches kept ready, besides one per thread that is being made. More hides "
                   "longer hiccups and costs memory: this many batches of uint8 pixels.",
           .min = 1,
           .max = 1024,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
}

struct AugmentOptions {
  int64_t pad_crop = 0;
  bool flip = false;
  double brightness = 0.0;
  double contrast = 0.0;
  double saturation = 0.0;
};

inline void describe(OptionSet& set, AugmentOptions& options) {
  set.add("pad_crop", &options.pad_crop,
          {.help = "Pad each side by this many black pixels, then crop the original size at a "
                   "random place; 0 turns it off.",
           .min = 0,
           .max = 64});
  set.add("flip", &options.flip, {.help = "Mirror half of the images left to right, at random."});
  set.add("brightness", &options.brightness,
          {.help = "Multiply the brightness by a random factor from 1 - this to 1 + this.",
           .min = 0,
           .max = 1});
  set.add("contrast", &options.contrast,
          {.help = "Stretch or squeeze the contrast by a random factor, likewise.",
           .min = 0,
           .max = 1});
  set.add(
      "saturation", &options.saturation,
      {.help = "Strengthen or fade the colours by a random factor, likewise.", .min = 0, .max = 1});
}

struct ImageOptions {
  int64_t size = 0;
  std::string crop = "random";
  double min_scale = 0.08;
  double min_ratio = 0.75;
  int64_t evaluate_resize = 0;
  bool rectangular = false;
  bool reduce = true;
};

inline void describe(OptionSet& set, ImageOptions& options) {
  set.add(
      "size", &options.size,
      {.help = "Side, in pixels, of the square images that the network sees; 0 takes samples as "
               "they are, which needs them all to have one size. Time grows with its square.",
       .min = 0,
       .max = 4096});
  set.add(
      "crop", &options.crop,
      {.help = "What part of a training image is resized to size: random (another part in every "
               "epoch, of random area and shape) or centre (the one that evaluation sees).",
       .choices = {"random", "centre"}});
  set.add("min_scale", &options.min_scale,
          {.help = "crop = random: the smallest part, as a share of the image's area.",
           .min = 0.001,
           .max = 1});
  set.add("min_ratio", &options.min_ratio,
          {.help = "crop = random: the narrowest part, width by height; the widest is one by this.",
           .min = 0.1,
           .max = 1});
  set.add(
      "evaluate_resize", &options.evaluate_resize,
      {.help = "Evaluation shrinks the short side to this and takes the centre of size x size; 0 "
               "is size * 256 / 224.",
       .min = 0,
       .max = 8192});
  set.add(
      "rectangular", &options.rectangular,
      {.help =
           "Evaluate batches of images of similar aspect ratio, each at its own ratio, instead "
           "of squares: nothing is cut off at the sides. Needs a network that takes any size."});
  set.add("reduce", &options.reduce,
          {.help = "Decode a large JPEG at 1/2, 1/4 or 1/8 where that is still at least the size "
                   "asked for: faster, and not quite the same pixels."});
}

}  // namespace tern
