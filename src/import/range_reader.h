// Reads the bytes of samples where they lie: ranges of files below one folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/bytes.h"
#include "core/result.h"
#include "import/source.h"
#include "storage/file_door.h"

namespace tern {

// Owned by one thread. Keeps the file of the last range open: members of one tar come one after
// the other. A call blocks for one read.
class RangeReader {
 public:
  explicit RangeReader(std::filesystem::path root);

  // Memory is taken only for what the file holds. A file that ends before the range does is
  // `corrupt`: it was changed after it was scanned.
  Result<Bytes> read(const FileRange& range);
  // Of the file of the last read().
  int64_t file_bytes() const { return size_bytes_; }

 private:
  Status open(const std::string& file);

  const std::filesystem::path root_;
  std::string open_file_;
  std::unique_ptr<FileDescriptor> fd_;  // of open_file_, if there is one
  int64_t size_bytes_ = 0;
};

}  // namespace tern
