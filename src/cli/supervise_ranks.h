// `tern train --ranks N`: `tern` stays and supervises several tern-train instead of becoming one.
#pragma once

#include <string>

#include "cli/become_trainer.h"
#include "cli/command.h"
#include "preempt/options.h"
#include "ranks/options.h"
#include "ranks/supervisor.h"

namespace tern {

struct RanksStart {
  TrainerStart trainer;  // of each rank. REQUIRES: its programs
  RanksOptions ranks;
  PreemptOptions preempt;
  std::string run;        // for people
  std::string halt_file;  // empty: none
};

// How one of them is started; `has_begun` once the group has formed for the first time. REQUIRES:
// its programs.
RankCommand rank_command(const Surroundings& surroundings, const TrainerStart& trainer,
                         bool has_begun);

// Blocks until the run has ended; the exit code of the rank that led. Watches for notices, for all
// ranks. Call from the main thread, with signals blocked: the ranks end with it.
Result<int> supervise_ranks(const Surroundings& surroundings, const RanksStart& start);

}  // namespace tern
