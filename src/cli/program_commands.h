// `tern program` and its ranks.
#pragma once

#include "cli/command.h"

namespace tern {

Result<int> program_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> program_rank_command(const Surroundings& surroundings, const Arguments& arguments);

}  // namespace tern
