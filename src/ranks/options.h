// Options of this folder: how many processes train together, and when one counts as lost.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/options.h"

namespace tern {

struct RanksOptions {
  int64_t count = 1;
  int64_t min = 1;
  int64_t max = 0;
  Milliseconds heartbeat{500};
  Milliseconds timeout{10'000};
  int64_t restarts = 3;
  Milliseconds spare_after{5'000};
  int64_t standby = 1;
  std::string address = "127.0.0.1";
};

// Ranks beyond this are refused: more processes than any one machine has cores.
inline constexpr int64_t kRanksMax = 1024;

inline void describe(OptionSet& set, RanksOptions& options) {
  const auto add = [&set](std::string_view name, OptionSet::Field field, OptionRules rules) {
    rules.on_resume = OnResume::may_change;
    rules.across_ranks = AcrossRanks::may_differ;
    set.add(name, field, std::move(rules));
  };
  add("count", &options.count,
      {.help = "Processes (ranks) on this machine that share each batch; --ranks sets it. 1 trains "
               "in one process, without a supervisor.",
       .min = 1,
       .max = kRanksMax});
  add("min", &options.min,
      {.help =
           "The run goes on with the ranks that are left while there are at least so many; with "
           "fewer it waits until a lost one is back.",
       .min = 1,
       .max = kRanksMax});
  add("max", &options.max,
      {.help = "Ranks that take part at most; others wait to step in for a lost one. 0: count.",
       .min = 0,
       .max = kRanksMax});
  add("heartbeat", &options.heartbeat,
      {.help = "Time between a rank's signs of life.", .min = 0.01, .max = 60});
  add("timeout", &options.timeout,
      {.help = "A rank without a sign of life for this long is hung: it is killed, and the others "
               "go on without it. A dead one is seen at once.",
       .min = 0.1,
       .max = 3'600});
  add("restarts", &options.restarts,
      {.help = "How often a rank that died is started again without having done a step in between; "
               "then the run goes on without it.",
       .min = 0,
       .max = 1'000'000});
  add("spare_after", &options.spare_after,
      {.help = "A machine that is away for this long gives its place to a spare, if there is one.",
       .min = 0,
       .max = 86'400});
  add("standby", &options.standby,
      {.help = "Ranks that are started besides, once the run steps, and wait to take a lost one's "
               "place at once. They take memory and no time. On several machines, and where ranks "
               "compute on GPUs: none.",
       .min = 0,
       .max = 16});
  add("address", &options.address,
      {.help = "The address of this machine that ranks talk over, and nothing else listens on."});
}

}  // namespace tern
