// What the commands on launched runs share: where their records are, and how machines are reached.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fleet/agent.h"
#include "fleet/launched_run.h"
#include "fleet/machine_shell.h"
#include "fleet/slurm_job.h"

namespace tern {

// failed_precondition without a home folder, in which all of it is kept.
Result<LaunchedRuns> open_launched_runs(const Surroundings& surroundings);
AgentPlace agent_place(const Surroundings& surroundings);
SshSetup ssh_setup(const Surroundings& surroundings);
HostsPlace hosts_place(const Surroundings& surroundings, Clock& clock);

// A launched run and a door to each of its machines, or to Slurm.
struct OpenedRun {
  LaunchedRun run;
  std::vector<MachineShell> shells;
  std::shared_ptr<const SlurmJob> slurm;  // null: its machines have agents
};
Result<OpenedRun> open_launched_run(const Surroundings& surroundings, const std::string& name,
                                    Clock& clock);

// {"state"} of every machine and what else is known of it. Never fails.
std::vector<nlohmann::json> ask_states(const OpenedRun& opened);

// "running" and the like, with the exit code of one that ended: "ended with 75".
std::string describe_state(const nlohmann::json& state);

// The exit code of a run that has ended on its machines, as ask_all_states() tells of them: 0 if it
// ended well on any of them, which then had all of it; else that it was stopped (10) or preempted
// (75) on one; else the first machine's that failed. A spare that only rested has no say.
int outcome_of(const std::vector<nlohmann::json>& states);

// Prints the logs of the machines as they grow, until none of them runs or `stop`: each line of
// several machines after the machine's name. `follow` false: only what is there.
struct LogWish {
  std::vector<size_t> machines;
  bool follow = false;
};
Status print_logs(const OpenedRun& opened, const LogWish& wish, Clock& clock, std::stop_token stop);

}  // namespace tern
