// The files of a program's checkpoint folder, and whether they are finished.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace tern {

// Tells a file's content from what it was, as far as that can be told without reading it.
struct FileStamp {
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;
  int64_t inode = 0;

  bool operator==(const FileStamp&) const = default;
};

using FolderScan = std::map<std::string, FileStamp>;  // by path, parts separated by '/'

// Plain files only; without those whose name, or a folder's above them, begins with '.' or ends
// with ".tmp" or ".part": they get another name when they are done. What comes or goes meanwhile
// may be there or not.
FolderScan scan_folder(const std::filesystem::path& folder);

std::optional<FileStamp> stamp_of(const std::filesystem::path& file);
std::optional<FileStamp> stamp_of(int open_file);

// Whether some process has it open for writing. Where the file system cannot tell: no.
bool is_being_written(const std::filesystem::path& file);

}  // namespace tern
