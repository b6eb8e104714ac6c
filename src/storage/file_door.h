// The door to files below DiskStore: the few verbs from which a crash-safe store can be built, kept
// apart so that a simulated one (sim_file_door.h) can forget what was not synced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

struct FileInfo {
  std::string path;  // relative to the listed folder, parts separated by '/'
  int64_t size_bytes = 0;
};

// Safe from any thread; every call may block. A name (of a file or a folder) is durable only after
// sync_folder() of the folder it is in, whatever happened to the bytes behind it.
class FileDoor {
 public:
  using Path = std::filesystem::path;

  virtual ~FileDoor() = default;

  // Writes a file that must not exist yet, and syncs its bytes. After a failure the file may exist,
  // with any part of the bytes.
  virtual Status write_new(const Path& path, BytesView bytes) = 0;
  // Gives the file a second name, or already_exists. Of many callers exactly one succeeds.
  virtual Status link(const Path& from, const Path& to) = 0;
  // Moves the file over whatever file has the name `to`; readers see the old or the new one.
  virtual Status rename(const Path& from, const Path& to) = 0;
  virtual Status sync_folder(const Path& folder) = 0;
  // Makes the folder and its missing parents; returns those that it made, outermost first.
  virtual Result<std::vector<Path>> make_folders(const Path& folder) = 0;
  // not_found if there is no file; a folder is no file.
  virtual Status remove(const Path& path) = 0;

  virtual Result<Bytes> read(const Path& path) = 0;
  // As ObjectStore::get_range.
  virtual Result<Bytes> read_range(const Path& path, int64_t offset, int64_t length) = 0;
  virtual Result<int64_t> size_bytes(const Path& path) = 0;
  // Tells a folder from any other that has had its path, and stays its own when it is moved.
  // not_found if there is no such folder.
  virtual Result<std::string> folder_identity(const Path& folder) = 0;
  // All files below the folder, in no order. What comes or goes meanwhile may be shown or not.
  virtual Result<std::vector<FileInfo>> list(const Path& folder) = 0;

  // False if other programs cannot find these files under these paths.
  virtual bool is_on_this_machine() const = 0;
};

// The machine's file systems, by POSIX calls. No state.
class RealFileDoor final : public FileDoor {
 public:
  Status write_new(const Path& path, BytesView bytes) override;
  Status link(const Path& from, const Path& to) override;
  Status rename(const Path& from, const Path& to) override;
  Status sync_folder(const Path& folder) override;
  Result<std::vector<Path>> make_folders(const Path& folder) override;
  Status remove(const Path& path) override;
  Result<Bytes> read(const Path& path) override;
  Result<Bytes> read_range(const Path& path, int64_t offset, int64_t length) override;
  Result<int64_t> size_bytes(const Path& path) override;
  Result<std::string> folder_identity(const Path& folder) override;
  Result<std::vector<FileInfo>> list(const Path& folder) override;
  bool is_on_this_machine() const override { return true; }
};

// An open file, closed with its scope. For those who use POSIX calls directly.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// What a failed POSIX call means: "cannot write /run/x: No space left on device; free some space
// ...". The one place where errno becomes a Code.
Error file_error(std::string_view verb, const std::filesystem::path& path, int error_number);

// write(2) until all is written. Returns the errno, 0 for success; `written` says how far it came.
int write_fully(int fd, BytesView bytes, size_t& written);

}  // namespace tern
