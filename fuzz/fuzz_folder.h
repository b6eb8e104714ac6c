// For parsers that read files: a folder in memory, filled anew for every input.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// One per process, a static of the target's function: goes when the fuzzer ends by itself.
class FuzzFolder {
 public:
  FuzzFolder() { TERN_CHECK(mkdtemp(path_.data()) != nullptr); }
  ~FuzzFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;

  const std::string& path() const { return path_; }

  // Replaces the file; returns its path.
  std::string write(const std::string& name, BytesView bytes) const {
    std::string file = path_ + "/" + name;
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
    TERN_CHECK(stream.good());
    return file;
  }

 private:
  std::string path_ = "/dev/shm/tern_fuzz_XXXXXX";
};

}  // namespace tern
