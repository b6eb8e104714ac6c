// The `launch.setup` commands of a run file, on the machine that they are for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

struct SetupResult {
  bool ran = false;           // false: these very commands have run here before
  std::filesystem::path log;  // what they said
};

// Runs the commands in order, each by `sh -c` in `home`, unless the same list has succeeded on this
// machine before. Their words go to a log below `cache`, by the list's hash. A second caller waits
// for the first. The error names the command, its exit code and its last words; the next call
// begins with the first command again, so each must bear to be run twice.
Result<SetupResult> run_setup_commands(const std::vector<std::string>& commands,
                                       const std::filesystem::path& cache,
                                       const std::filesystem::path& home, Clock& clock);

}  // namespace tern
