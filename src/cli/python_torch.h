// Asks the machine's Python where its torch is.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/clock.h"

namespace tern {

struct PythonAnswer {
  std::optional<std::filesystem::path> torch;  // the package's folder
  // The program, and every folder that decides what it would import; empty if it did not tell.
  std::vector<std::filesystem::path> looked_at;
};

// Nothing if there is no python3, or no answer within `limit`. As find_python_torch() otherwise.
std::optional<PythonAnswer> ask_python(Clock& clock, Nanoseconds limit);

// The folder of the torch package that `python3` would import, or nothing: no python3, no torch, or
// no answer within `limit`. The package is found, not imported, which would take seconds. Blocks up
// to `limit`, and leaves no process behind.
std::optional<std::filesystem::path> find_python_torch(Clock& clock, Nanoseconds limit);

}  // namespace tern
