// Questions to the agents of a launched run, from the machine that launched it.
#pragma once

#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "fleet/launched_run.h"
#include "fleet/machine_shell.h"

namespace tern {

struct AgentQuestion {
  std::string verb;        // of `tern agent`
  nlohmann::json request;  // by stdin
  Milliseconds limit{60'000};
};

// Runs `TERN agent VERB` on the machine and reads the JSON that it prints. An error that it prints
// is ours, with the machine's name before it and the same code.
Result<nlohmann::json> ask_agent(const MachineShell& shell, const std::string& tern,
                                 const AgentQuestion& question, std::stop_token stop = {});

// Runs launch.setup there; false if it has been run since the machine was started.
Result<bool> ask_for_setup(const MachineShell& shell, const std::string& tern,
                           const std::vector<std::string>& commands, std::stop_token stop = {});

// {"id", "machine"}, by which an agent is found.
nlohmann::json agent_key(const LaunchedRun& run, size_t machine);

// What the verbs "start" and "restart" answer.
AgentRecord parse_agent_answer(const nlohmann::json& answer, int64_t started_unix_ms);

// {"state"} of one machine and what else agent_status() tells; a machine that cannot be asked
// within 12 s has the state "unreachable" and a "reason". Never fails.
nlohmann::json ask_state(const LaunchedRun& run, const std::vector<MachineShell>& shells,
                         size_t machine, std::stop_token stop = {});
// Of all machines, which are asked at once.
std::vector<nlohmann::json> ask_all_states(const LaunchedRun& run,
                                           const std::vector<MachineShell>& shells,
                                           std::stop_token stop = {});

// Ends everything of the run on all machines and closes their connections; machines where nothing
// was brought yet are passed over. Every machine that could not be cleaned is named.
Status remove_all_agents(const LaunchedRun& run, const std::vector<MachineShell>& shells,
                         Milliseconds grace, std::stop_token stop = {});

}  // namespace tern
