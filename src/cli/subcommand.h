// `tern data ls`, `tern store cp`: commands that are a group of others.
#pragma once

#include <span>
#include <string_view>

#include "cli/command_table.h"

namespace tern {

// Starts the command of the group `name` that the first argument names; prints `help` if there is
// none. `invalid`, with the nearest name, for one that the group does not have.
Result<int> run_subcommand(std::string_view name, std::string_view help,
                           std::span<const Command> commands, const Surroundings& surroundings,
                           const Arguments& arguments);

}  // namespace tern
