// `tern program` and its ranks.
#pragma once

#include "cli/command.h"

namespace tern {

// In the work folder, once what was saved last is nowhere else: it is not to be removed, and no
// rank is to be started again.
inline constexpr char kNotKeptFile[] = "not-kept";

Result<int> program_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> program_rank_command(const Surroundings& surroundings, const Arguments& arguments);

}  // namespace tern
