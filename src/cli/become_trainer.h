// How `tern` becomes tern-train, which computes: shared by every command that needs LibTorch.
#pragma once

#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/trainer_environment.h"
#include "core/clock.h"
#include "core/result.h"

namespace tern {

// What a computing process is made of.
struct TrainerPrograms {
  std::filesystem::path trainer;   // tern-train
  std::filesystem::path libtorch;  // the folder that has torch/lib
};

// find_libtorch() with what this process knows of its surroundings.
Result<std::filesystem::path> find_libtorch_of(const Surroundings& surroundings, Clock& clock);

// Finds both; not_found says how to get what is missing. Signals are blocked from here on, and wait
// for tern-train. May block for a Python that is asked for its torch.
Result<TrainerPrograms> find_trainer_programs(const Surroundings& surroundings);

struct TrainerStart {
  Arguments arguments;  // of tern-train; the first names its mode unless it trains
  int64_t threads = 0;  // that compute; 0: one per core
  int64_t cores = 0;    // that those threads have for themselves; 0: all of the machine
  bool portable = false;
  Nanoseconds started{0};  // time_since_boot() when the command began
  std::optional<TrainerPrograms>
      programs;  // where they were found before; else they are looked for
};

// What tern-train's environment has to differ in from ours.
std::vector<EnvironmentChange> trainer_changes(const Surroundings& surroundings,
                                               const TrainerPrograms& programs,
                                               const TrainerStart& start);

// Finds tern-train and LibTorch, sets the environment that it reads when it is loaded and exec()s:
// returns only if that fails. Signals are blocked from here on, and wait for tern-train.
Error become_trainer(const Surroundings& surroundings, const TrainerStart& start);

}  // namespace tern
