// PyTorch's Python half for tests: that of the LibTorch which Tern is built with.
#pragma once

#include <filesystem>

namespace tern {

// It is linked to libraries of CUDA which are no part of the LibTorch that we fetch (2 GB, and no
// GPU is used). Under their names `folder`, which is made, then has a library without symbols, for
// LD_LIBRARY_PATH: who binds lazily (sys.setdlopenflags) can import torch. Where the real ones are,
// they are found first. `site` is the folder that has torch/ in it.
void stand_in_for_cuda(const std::filesystem::path& site, const std::filesystem::path& folder);

}  // namespace tern
