// Files kept open between reads, for whoever reads small parts of many.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/bytes.h"
#include "core/mutex.h"
#include "core/result.h"

namespace tern {

// `corrupt` unless a file's path, as an index gives it, stays below the folder it is relative to.
Status check_file_path(std::string_view path);

// A cache of open files by number. At most `open_max` are kept open, the least recently used are
// closed; a file that is being read stays open until that read ends, so there may be one more for
// each reading thread. Safe from any thread; a read blocks for the file system, and no thread waits
// for another's read. A read of an open file into a buffer that is large enough takes no memory.
class OpenFiles {
 public:
  // The path of a file; asked for when the file is opened.
  using PathOf = std::function<Result<std::string>(int64_t file)>;
  // pread(2). Tests put a file system's bad days here.
  using ReadAt = std::function<ssize_t(int fd, void* to, size_t bytes, off_t offset)>;

  // REQUIRES: open_max > 0.
  OpenFiles(PathOf path_of, int64_t open_max, ReadAt read_at = {});
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Bytes [offset, offset + length) into `buffer`, which is resized; `corrupt` if the file ends
  // before. A file whose server has forgotten it (ESTALE) is opened again once.
  Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) EXCLUDES(mutex_);
  // The next read opens the file anew.
  void drop(int64_t file) EXCLUDES(mutex_);

  int64_t open_count() const EXCLUDES(mutex_);

 private:
  struct Opened;
  using Handle = std::shared_ptr<const Opened>;
  struct Kept {
    int64_t file;
    Handle handle;
  };

  Result<Handle> open(int64_t file) EXCLUDES(mutex_);
  Handle find(int64_t file) EXCLUDES(mutex_);
  Handle keep(int64_t file, Handle handle) EXCLUDES(mutex_);

  const PathOf path_of_;
  const size_t open_max_;
  const ReadAt read_at_;

  mutable Mutex mutex_;
  std::list<Kept> recent_ GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<int64_t, std::list<Kept>::iterator> by_file_ GUARDED_BY(mutex_);
};

}  // namespace tern
