// Where LibTorch is on this machine. tern itself does not need it; tern-train loads it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/result.h"

namespace tern {

// The one version tern-train was built against: its ABI changes with every release.
inline constexpr char kLibTorchVersion[] = "2.11.0";

struct LibTorchSearch {
  std::string given;                      // $TERN_LIBTORCH; empty if not set
  std::filesystem::path programs_folder;  // where `tern` is
  std::filesystem::path cache_folder;     // where fetched things are kept; empty if nowhere
  // The folder of the torch that a Python on this machine would import (python_torch.h).
  std::function<std::optional<std::filesystem::path>()> ask_python;
};

// The folder whose lib/ holds libtorch_cpu.so, of kLibTorchVersion: `given`, else beside tern, else
// a Python's, else the fetched one. A `given` one that does not fit is `invalid`; elsewhere one
// that does not fit is passed over. not_found says what was looked at and what to do.
Result<std::filesystem::path> find_libtorch(const LibTorchSearch& search);

// Where a fetched one is: the folder that has torch/ in it.
std::filesystem::path fetched_libtorch(const std::filesystem::path& cache_folder);

}  // namespace tern
