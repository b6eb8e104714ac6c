// `tern train --ranks N`: `tern` stays and supervises several tern-train instead of becoming one.
// `tern program` does the same with any program.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/become_trainer.h"
#include "cli/command.h"
#include "preempt/options.h"
#include "ranks/options.h"
#include "ranks/supervisor.h"

namespace tern {

// Ranks of any kind, and what is watched for them.
struct Supervision {
  RanksOptions ranks;
  PreemptOptions preempt;
  std::string title;               // of the ranks' processes
  std::string run;                 // for people
  std::string halt_file;           // empty: none
  std::optional<MeshPlace> place;  // among other machines; none: this one alone
  bool has_boundaries = true;      // ranks come by themselves to the step at which one leaves
  bool ends_orphans = false;       // what a dead rank had started is ended
  std::filesystem::path program;
  std::function<RankCommand(bool has_begun)> command;
  std::function<bool(int exit_code)> is_final;
  std::function<bool(int exit_code)> is_end = [](int exit_code) { return exit_code == 0; };
};

// Blocks until the run has ended on this machine; the exit code of the rank that led. Watches for
// notices, for all ranks. Call from the main thread, with signals blocked: the ranks end with it.
Result<int> supervise(const Surroundings& surroundings, const Supervision& supervision);

struct RanksStart {
  TrainerStart trainer;  // of each rank. REQUIRES: its programs
  RanksOptions ranks;
  PreemptOptions preempt;
  std::string run;                 // for people
  std::string halt_file;           // empty: none
  std::optional<MeshPlace> place;  // among other machines; none: this one alone
};

// How one of them is started; `has_begun` once the group has formed for the first time. REQUIRES:
// its programs.
RankCommand rank_command(const Surroundings& surroundings, const TrainerStart& trainer,
                         bool has_begun);

// As supervise(), of trainers.
Result<int> supervise_ranks(const Surroundings& surroundings, const RanksStart& start);

}  // namespace tern
