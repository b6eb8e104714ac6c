#pragma once

#include <cstdint>

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
};

inline void describe(OptionSet& set, AugmentOptions& options) {
  set.add("pad_crop", &options.pad_crop,
          {.help = "Pad each side by this many black pixels, then crop the original size at a "
                   "random place; 0 turns it off.",
           .min = 0,
           .max = 64});
  set.add("flip", &options.flip, {.help = "Mirror half of the images left to right, at random."});
}

}  // namespace tern
