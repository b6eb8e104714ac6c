#include "program/folder_scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "storage/file_door.h"
#include "storage/object_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

std::optional<FileStamp> stamp_of(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  return FileStamp{.size_bytes = info.st_size,
                   .modified_ns = nanoseconds(info.st_mtim),
                   .inode = static_cast<int64_t>(info.st_ino)};
}

bool is_passed_over(const std::string& name) {
  return name.starts_with('.') || name.ends_with(".tmp") || name.ends_with(".part");
}

}  // namespace

std::optional<FileStamp> stamp_of(const fs::path& file) {
  struct stat info{};
  return lstat(file.c_str(), &info) == 0 ? stamp_of(info) : std::nullopt;
}

std::optional<FileStamp> stamp_of(int open_file) {
  struct stat info{};
  return fstat(open_file, &info) == 0 ? stamp_of(info) : std::nullopt;
}

FolderScan scan_folder(const fs::path& folder) {
  FolderScan scan;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  const fs::recursive_directory_iterator end;
  while (!error && entry != end) {
    if (is_passed_over(entry->path().filename().string())) {
      entry.disable_recursion_pending();
    } else if (const auto stamp = stamp_of(entry->path())) {
      const std::string path = entry->path().lexically_relative(folder).generic_string();
      // A name that no store takes cannot be kept.
      if (check_object_name(path).has_value()) scan[path] = *stamp;
    }
    entry.increment(error);
  }
  return scan;
}

bool is_being_written(const fs::path& file) {
  const FileDescriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) return false;
  // The kernel refuses a lease on reading while anyone may write. It is given back with the file.
  if (fcntl(fd.get(), F_SETLEASE, F_RDLCK) == 0) {
    fcntl(fd.get(), F_SETLEASE, F_UNLCK);
    return false;
  }
  return errno == EAGAIN;
}

}  // namespace tern
