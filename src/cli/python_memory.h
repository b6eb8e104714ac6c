// Remembers where python3's torch is, so that not every start has to ask.
#pragma once

#include <filesystem>
#include <optional>

#include "core/clock.h"

namespace tern {

// As find_python_torch(), which takes 0.04 to 0.3 s. The answer is kept in `cache_folder` (empty:
// nowhere) and holds for as long as all is as it was: the python3 that PATH leads to, the variables
// that it heeds, the version that pyenv chooses, and the folders that it would import from. A
// python3 that is neither a Python nor pyenv's is asked each time.
std::optional<std::filesystem::path> recall_python_torch(const std::filesystem::path& cache_folder,
                                                         Clock& clock, Nanoseconds limit);

}  // namespace tern
