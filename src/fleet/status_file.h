// What the supervisor of a machine tells of itself and its ranks, in the file that the agent names
// by TERN_STATUS_FILE.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "core/bytes.h"

namespace tern {

inline constexpr size_t kStatusFileBytesMax = 4 << 20;

// {"role": "hub", "working", "resting" or "ending", "term", "generation", "step", "ranks": [{"id",
// "pid", "pid_start", "rank", "role", "step", "rate", "waits_for"}]}, as docs/launch.md says; of
// what the file says only what has the right kind. Null for what is no such file.
nlohmann::json read_status_file(BytesView text);

// Names the processes among `processes` (of agent_status()) that are ranks of `told`.
void name_ranks(nlohmann::json& processes, const nlohmann::json& told);

}  // namespace tern
