// Has tern-train measure what LibTorch reaches: `tern` itself does not load it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/doctor_findings.h"
#include "cli/trainer_environment.h"
#include "core/clock.h"

namespace tern {

struct TrainerQuestion {
  std::filesystem::path trainer;
  std::string device;  // "cpu", "cuda:0"
  std::vector<EnvironmentChange> environment;
  Nanoseconds limit = std::chrono::seconds(8);
};

// Starts `tern-train --probe-speed DEVICE` and reads its answer. `deadline_exceeded` if none came
// within the limit, `unavailable` with the program's own words if it could not: LibTorch that does
// not load, a GPU that does not work. Blocks up to the limit, and leaves no process behind.
Result<TrainerSpeed> ask_trainer(const TrainerQuestion& question, Clock& clock);

// The answer in what the program wrote: the last line that is a JSON object, among warnings that
// LibTorch may print. Otherwise an error with the last words.
Result<TrainerSpeed> parse_trainer_answer(const std::string& output);

}  // namespace tern
