// Options of this folder: whose notices are asked for.
#pragma once

#include <string>

#include "core/options.h"

namespace tern {

struct PreemptOptions {
  std::string cloud = "auto";
  bool acknowledge = false;
};

inline void describe(OptionSet& set, PreemptOptions& options) {
  set.add(
      "cloud", &options.cloud,
      {.help = "The cloud whose metadata service is asked whether this machine will go: auto is "
               "the one that the machine's firmware names, and nobody where it names none.",
       .choices = {"auto", "aws", "gcp", "azure", "none"},
       .on_resume = OnResume::may_change,
       .across_ranks = AcrossRanks::may_differ});
  set.add(
      "acknowledge", &options.acknowledge,
      {.help = "Azure: once the run is saved and left, tell the cloud that the machine may go at "
               "once. Only where nothing else on the machine needs the time that is left.",
       .on_resume = OnResume::may_change,
       .across_ranks = AcrossRanks::may_differ});
}

}  // namespace tern
