// What the commands on launched runs share: where their records are, and how machines are reached.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "fleet/agent.h"
#include "fleet/launched_run.h"
#include "fleet/machine_shell.h"

namespace tern {

// failed_precondition without a home folder, in which all of it is kept.
Result<LaunchedRuns> open_launched_runs(const Surroundings& surroundings);
AgentPlace agent_place(const Surroundings& surroundings);
SshSetup ssh_setup(const Surroundings& surroundings);
HostsPlace hosts_place(const Surroundings& surroundings, Clock& clock);

// A launched run and a door to each of its machines.
struct OpenedRun {
  LaunchedRun run;
  std::vector<MachineShell> shells;
};
Result<OpenedRun> open_launched_run(const Surroundings& surroundings, const std::string& name,
                                    Clock& clock);

// "running" and the like, with the exit code of one that ended: "ended with 75".
std::string describe_state(const nlohmann::json& state);

// Prints the logs of the machines as they grow, until none of them runs or `stop`: each line of
// several machines after the machine's name. `follow` false: only what is there.
struct LogWish {
  std::vector<size_t> machines;
  bool follow = false;
};
Status print_logs(const OpenedRun& opened, const LogWish& wish, Clock& clock, std::stop_token stop);

}  // namespace tern
