// Which version of its files a source was read in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/hash.h"

namespace tern {

// A file's size and when it was last written.
struct FileStamp {
  int64_t size_bytes = 0;
  int64_t written_ns = 0;

  // Nothing if it cannot be looked at; errno says why.
  static std::optional<FileStamp> of(const std::filesystem::path& file);
};

// A hash over the names, sizes and times of files, in the order in which they are added: another
// one for a file that was written since, though it has the size it had.
class FilesVersion {
 public:
  void add(std::string_view name, const FileStamp& stamp);
  void add(const std::filesystem::path& file);
  // 16 hex digits. REQUIRES: called once.
  std::string finish();

 private:
  Sha256 hash_;
};

}  // namespace tern
