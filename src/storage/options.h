// Options of this folder: how often a run is saved, and when it may be taken over.
#pragma once

#include <cstdint>

#include "core/clock.h"
#include "core/options.h"

namespace tern {

struct CheckpointOptions {
  Milliseconds every{30'000};
  int64_t keep = 3;
};

inline void describe(OptionSet& set, CheckpointOptions& options) {
  set.add("every", &options.every,
          {.help = "Time between checkpoints within an epoch; each epoch ends with one as well. "
                   "Shorter loses fewer steps to a kill without notice and costs more writes.",
           .min = 0,
           .max = 86'400,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("keep", &options.keep,
          {.help = "Newest checkpoints kept; the best one is kept besides.",
           .min = 1,
           .max = 1'000'000,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
}

struct LeaseOptions {
  Milliseconds term{60'000};
};

inline void describe(OptionSet& set, LeaseOptions& options) {
  set.add("term", &options.term,
          {.help = "A run whose holder is on another machine is taken over when it has written "
                   "nothing for this long. The holder writes at least every third of it.",
           .min = 0,
           .max = 86'400,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
}

}  // namespace tern
