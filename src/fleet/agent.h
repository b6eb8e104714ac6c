// The agent of a launched run: one process per machine, without a terminal, that runs one command,
// passes notices on to it, and leaves nothing of it behind.
#pragma once

#include <filesystem>

#include "core/clock.h"
#include "core/result.h"
#include "fleet/agent_files.h"

namespace tern {

// Of the machine that the agent is on.
struct AgentPlace {
  std::filesystem::path executable;  // tern itself
  std::filesystem::path agents;      // folder of all agents of this user
  std::filesystem::path home;
};

// Starts the agent as a process of its own session and returns once its command runs, or with the
// reason why it does not; nothing is left then. already_exists if the run has an agent here.
Result<AgentRecord> start_agent(const AgentRequest& request, const AgentPlace& place);

// Starts an agent again that is lost or has ended, in the same folder, with the same request and
// secret; what the old one left running is ended first. failed_precondition if it runs, not_found
// if nothing of the run is there.
Result<AgentRecord> restart_agent(const std::string& mark, const AgentPlace& place, Clock& clock);

// The agent itself, `tern agent run FOLDER`: runs the command and returns when it has ended. Tells
// on the descriptor `ready`, which it closes, that the command runs ("ok"), or why not.
//
// SIGTERM to the agent is a notice that the machine will go, SIGINT the wish to stop: it writes the
// notice file and passes the signal on to the command's first process. When that has ended, all
// else that the command started is ended too. The command dies with its agent. One that was killed
// by a signal, without a notice before, is started again, as restart_rule.h says.
Status run_agent(const AgentFolder& folder, const AgentPlace& place, Clock& clock, int ready);

}  // namespace tern
