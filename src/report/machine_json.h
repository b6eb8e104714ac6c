// A machine as the ledger and report.json have it; the fields are in docs/format_ledger.md.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/machine.h"

namespace tern {

// An object; what the machine did not tell is left out.
nlohmann::json machine_json(const Machine& machine);
// Fields that are missing or of another type stay empty.
Machine parse_machine(const nlohmann::json& object);

}  // namespace tern
