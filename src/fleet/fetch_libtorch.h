// LibTorch for a machine that has none, by its own Python's pip.
#pragma once

#include <filesystem>
#include <string>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// What a machine without a GPU fetches; with one it is about 4.7 GB.
inline constexpr int kLibTorchDownloadMb = 545;

struct LibTorchFetch {
  std::filesystem::path target;  // becomes the folder that has torch/ in it
  std::string version;
  // Is there where this machine has an NVIDIA driver; then CUDA's libraries are needed, too.
  std::filesystem::path driver = "/proc/driver/nvidia/version";
};

// Fetches the wheels that tern is built against (their hashes are compared; those of CUDA's
// libraries are left to pip), unpacks them beside `target` and gives them its name by one rename:
// a fetch that is killed leaves no half LibTorch, and of two at once one stands. Takes minutes.
// not_found without a Python that has pip; unavailable, with pip's last words, if it fails.
Status fetch_libtorch(const LibTorchFetch& fetch, Clock& clock);

}  // namespace tern
