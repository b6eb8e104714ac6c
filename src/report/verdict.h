// What bounds a run, and what removing it would gain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/spans.h"

namespace tern {

struct RankWaits {
  double network_seconds = 0;     // even the rank that came last waited
  double straggling_seconds = 0;  // the others waited for that one
  double regroup_seconds = 0;     // there was no group: ranks were lost or came
};

// What a verdict is made from.
struct TimeUse {
  SpanSeconds seconds;
  double wall_seconds =
      0;              // the spans may tell less than it: records get lost, and old runs have none
  int64_t steps = 0;  // done, repeated ones included
  int64_t processes = 1;
  bool is_on_gpu = false;
  double dry_share = 0;         // of a GPU's steps: before them it had nothing left to do
  int64_t cores = 0;            // 0: not known
  int64_t loader_threads = -1;  // -1: not known
  std::string slowest_rank;     // that the others waited for, or empty
  double slowest_seconds = 0;   // for how long
  double slowest_ratio = 1;     // its time for a step by the others'
  // Of the time that ranks waited for each other; nothing: only the leader's wait is known.
  std::optional<RankWaits> waits;
};

// A sentence that begins with what bounds the run ("data-bound: ...") or with "too little to tell".
// The thresholds are in docs/format_report.md. A pure function.
std::string verdict(const TimeUse& use);

}  // namespace tern
