// The `launch.setup` commands of a run file, on the machine that they are for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// Whose record of what has run is looked at.
struct SetupMachine {
  std::string name;     // a home, and the record in it, may be shared by several
  std::string boot_id;  // what a machine mounted or set is gone with its next boot
};
SetupMachine this_setup_machine();

struct SetupResult {
  bool ran = false;           // false: these very commands have run here since the boot
  std::filesystem::path log;  // what they said
};

// Runs the commands in order, each by `sh -c` in `home`, unless the same list has succeeded on this
// machine since it was started. Their words go to a log below `cache`, by the list's hash and the
// machine's name. A second caller waits for the first. The error names the command, its exit code
// and its last words; the next call begins with the first command again, so each must bear to be
// run twice.
Result<SetupResult> run_setup_commands(const std::vector<std::string>& commands,
                                       const std::filesystem::path& cache,
                                       const std::filesystem::path& home,
                                       const SetupMachine& machine, Clock& clock);

}  // namespace tern
