// Slurm's own commands.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"

namespace tern {

// Runs one of them to its end and returns what it printed. Its complaint is our error: not_found
// for a job that Slurm does not know (any more), failed_precondition where Slurm is not installed,
// else `unavailable`.
Result<Bytes> ask_slurm(const std::vector<std::string>& command, Clock& clock,
                        std::stop_token stop = {});

}  // namespace tern
