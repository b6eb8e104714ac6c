// What `tern status X` shows: a line for each rank of a machine, or one for the machine.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tern {

// The header and a line for each rank; all the same columns. `states` as ask_all_states() returns
// them.
std::vector<std::string> status_lines(const std::vector<nlohmann::json>& states);

}  // namespace tern
