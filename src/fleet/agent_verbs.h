// What is asked of an agent on its own machine: how it is, its log, to leave, to be gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/clock.h"
#include "core/result.h"
#include "fleet/agent_files.h"

namespace tern {

// {"state": "running", "ended", "lost" (it vanished without a word) or "absent", ...}; the keys are
// those of `tern status --json` (docs/launch.md).
nlohmann::json agent_status(const std::filesystem::path& agents, const std::string& mark);

// {"state", "log" (base64), "next"}: at most `bytes_max` of the log from `offset` on, and where
// the rest begins.
Result<nlohmann::json> agent_log(const std::filesystem::path& agents, const std::string& mark,
                                 int64_t offset, int64_t bytes_max);

// Sends the agent a notice: "preempt" or "stop". failed_precondition if it does not run.
Status notify_agent(const std::filesystem::path& agents, const std::string& mark,
                    const std::string& kind);
// Waits until it does not run any more; false if that did not come within `limit`.
bool wait_for_agent(const std::filesystem::path& agents, const std::string& mark, Nanoseconds limit,
                    Clock& clock);

// Ends everything that has the mark by SIGKILL. `unavailable` if a process does not die.
Status end_marked_processes(const std::string& mark, Clock& clock);

// Ends everything that has the mark, first by a notice with `grace` to save itself, then by
// SIGKILL, and removes the agent's folder. What is gone already is fine. `unavailable` if a process
// does not die.
Status remove_agent(const std::filesystem::path& agents, const std::string& mark, Nanoseconds grace,
                    Clock& clock);

// The last "step N" or "step=N" of a log's end; -1 if it has none.
int64_t last_step_in(std::string_view log);

}  // namespace tern
