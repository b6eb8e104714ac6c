// Asks the machine's Python where its torch is.
#pragma once

#include <filesystem>
#include <optional>

#include "core/clock.h"

namespace tern {

// The folder of the torch package that `python3` would import, or nothing: no python3, no torch, or
// no answer within `limit`. The package is found, not imported, which would take seconds. Blocks up
// to `limit`, and leaves no process behind.
std::optional<std::filesystem::path> find_python_torch(Clock& clock, Nanoseconds limit);

}  // namespace tern
