// A data set small enough for hundreds of runs in a test: 8x8 grey images of four classes, as IDX
// files. Each class has a pattern of its own under noise, so that training has something to learn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tern {

struct TinyData {
  int64_t train_samples = 90;
  int64_t test_samples = 20;
  uint64_t seed = 7;  // another seed is another data set
};

// Writes the four files into `folder`, which is made.
void write_tiny_data(const std::filesystem::path& folder, const TinyData& data);

// A folder of its own for a test, in memory where the machine has such a place (thousands of
// fsyncs on a disk would be most of the time). Removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// The bytes of a file; empty if it cannot be read.
std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace tern
