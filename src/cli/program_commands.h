// `tern program` and its ranks.
#pragma once

#include "cli/command.h"

namespace tern {

// Of `tern launch`, `tern program` and its ranks.
inline constexpr char kLeavePortFreeFlag[] = "--leave-port-free";

Result<int> program_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> program_rank_command(const Surroundings& surroundings, const Arguments& arguments);

}  // namespace tern
