// What the machines of one run must have in common before it is started on them: addresses at which
// they find each other, and the run itself.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "core/result.h"
#include "fleet/launched_run.h"
#include "fleet/machine_shell.h"

namespace tern {

// "10.0.0.4:20317" of each machine, by its number; all are asked at once. A machine's interface is
// what the hosts file says, else the address at which its sshd was reached, and loopback for
// agents on this machine.
Result<std::vector<std::string>> find_peers(const LaunchedRun& run,
                                            const std::vector<MachineShell>& shells,
                                            std::stop_token stop);

// failed_precondition if `folder` of the machines (relative to the home folders) is not one folder
// that all of them see; every machine that does not is named.
Status check_shared_folder(const LaunchedRun& run, const std::vector<MachineShell>& shells,
                           const std::string& folder, std::stop_token stop);

}  // namespace tern
