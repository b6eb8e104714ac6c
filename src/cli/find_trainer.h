// Where tern-train is, the program that computes.
#pragma once

#include <filesystem>

#include "core/result.h"

namespace tern {

// libexec/tern-train beside `tern` or beside the folder it is in. not_found says what to do.
Result<std::filesystem::path> find_trainer(const std::filesystem::path& executable);

}  // namespace tern
