#include "dataset/open_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "storage/file_door.h"

namespace tern {

struct OpenFiles::Opened {
  FileDescriptor fd;
  std::string path;
  int64_t size_bytes;
};

namespace {

Error read_error(const std::string& path, int error_number) {
  if (error_number == ENOENT || error_number == ENOTDIR) {
    return fail(Code::not_found,
                fmt::format("the file {} is gone, but the index names it; put it "
                            "back (is its disk mounted?), or import the data again",
                            path));
  }
  return file_error("read", path, error_number);
}

Error early_end(const std::string& path, int64_t size_bytes) {
  return fail(Code::corrupt,
              fmt::format("{} ends after {} bytes, before the index says that it does; copy it "
                          "again, or import the data again",
                          path, size_bytes));
}

Error at_bytes(const Error& error, int64_t offset, int64_t length) {
  return error.at(fmt::format("read {} bytes at offset {}", length, offset));
}

}  // namespace

Status check_file_path(std::string_view path) {
  bool is_safe = !path.empty() && path.find('\0') == std::string_view::npos;
  for (size_t begin = 0; is_safe && begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    is_safe = !part.empty() && part != "..";  // an absolute path begins with an empty part
    begin = end + 1;
  }
  if (is_safe) return {};
  return fail(Code::corrupt, fmt::format("the index names the file '{}', which may lie outside of "
                                         "the data set; import the data again",
                                         path));
}

OpenFiles::OpenFiles(PathOf path_of, int64_t open_max, ReadAt read_at)
    : path_of_(std::move(path_of)),
      open_max_(static_cast<size_t>(open_max)),
      read_at_(read_at ? std::move(read_at) : ReadAt(::pread)) {
  TERN_CHECK(open_max > 0);
}

OpenFiles::~OpenFiles() = default;

Status OpenFiles::read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) {
  TERN_CHECK(offset >= 0 && length >= 0);
  for (bool is_second = false;; is_second = true) {
    Result<Handle> opened = open(file);
    if (!opened) return at_bytes(opened.error(), offset, length);
    const Opened& from = *opened.value();
    // Compared before memory is taken: the index may claim what it likes.
    if (length > from.size_bytes || offset > from.size_bytes - length) {
      return at_bytes(early_end(from.path, from.size_bytes), offset, length);
    }
    buffer.resize(static_cast<size_t>(length));
    size_t done = 0;
    int error_number = 0;
    while (done < buffer.size() && error_number == 0) {
      const ssize_t got = read_at_(from.fd.get(), buffer.data() + done, buffer.size() - done,
                                   offset + static_cast<int64_t>(done));
      if (got == 0) {
        const int64_t end = offset + static_cast<int64_t>(done);
        return at_bytes(early_end(from.path, end), offset, length);
      }
      if (got > 0) done += static_cast<size_t>(got);
      if (got < 0 && errno != EINTR) error_number = errno;
    }
    if (error_number == 0) return {};
    drop(file);  // whatever it was, the next read should not meet it through an old descriptor
    if (error_number == ESTALE && !is_second) continue;
    return at_bytes(read_error(from.path, error_number), offset, length);
  }
}

Result<OpenFiles::Handle> OpenFiles::open(int64_t file) {
  if (Handle found = find(file)) return found;
  ASSIGN_OR_RETURN(std::string path, path_of_(file));
  // O_NONBLOCK: a pipe that lies where a file should be is refused below, not waited for.
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  int number = ::open(path.c_str(), kFlags);
  if (number < 0 && (errno == ESTALE || errno == EINTR)) number = ::open(path.c_str(), kFlags);
  FileDescriptor fd(number);
  struct stat info{};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0) return read_error(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::corrupt,
                fmt::format("{} is no regular file; put the data set's file back, or import the "
                            "data again",
                            path));
  }
  return keep(file, std::make_shared<Opened>(std::move(fd), std::move(path), info.st_size));
}

OpenFiles::Handle OpenFiles::find(int64_t file) {
  MutexLock lock(mutex_);
  const auto found = by_file_.find(file);
  if (found == by_file_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->handle;
}

OpenFiles::Handle OpenFiles::keep(int64_t file, Handle handle) {
  Handle closed;  // after the lock is released: close(2) may block on a network file system
  MutexLock lock(mutex_);
  // Two threads may have opened it at once; the first one's is kept.
  if (const auto found = by_file_.find(file); found != by_file_.end()) {
    std::swap(closed, handle);
    return found->second->handle;
  }
  if (recent_.size() >= open_max_) {
    closed = std::move(recent_.back().handle);
    by_file_.erase(recent_.back().file);
    recent_.pop_back();
  }
  recent_.push_front({file, handle});
  by_file_.emplace(file, recent_.begin());
  return handle;
}

void OpenFiles::drop(int64_t file) {
  Handle closed;
  MutexLock lock(mutex_);
  const auto found = by_file_.find(file);
  if (found == by_file_.end()) return;
  closed = std::move(found->second->handle);
  recent_.erase(found->second);
  by_file_.erase(found);
}

int64_t OpenFiles::open_count() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(recent_.size());
}

}  // namespace tern
