#include "cli/object_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

namespace tern {
namespace {

Status write_at(int fd, BytesView bytes, int64_t offset, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error("write what arrives of", name, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return {};
}

// The last part is asked for with a byte more, which is there if the object has grown.
Status move_part(ObjectStore& store, const ObjectInfo& object, int fd, int64_t offset,
                 int64_t length) {
  const bool is_last = offset + length == object.size_bytes;
  const auto write = [&](int64_t at, BytesView piece) -> Status {
    if (at >= length) return {};
    return write_at(fd, piece.substr(0, static_cast<size_t>(length - at)), offset + at,
                    object.name);
  };
  ASSIGN_OR_RETURN(const int64_t got,
                   store.get_range_to(object.name, offset, is_last ? length + 1 : length, write));
  if (got == length) return {};
  return fail(Code::corrupt, fmt::format("{} changed while it was copied: it is {} than it was; "
                                         "run it again",
                                         object.name, got < length ? "shorter" : "longer"));
}

}  // namespace

void MappedFiles::add(BytesView file) {
  MutexLock lock(mutex_);
  files_[file.data()] = file.size();
}

void MappedFiles::remove(BytesView file) {
  MutexLock lock(mutex_);
  files_.erase(file.data());
}

void MappedFiles::let_go(BytesView bytes) {
  static const auto kPage = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  MutexLock lock(mutex_);  // held all the time: the file stays mapped meanwhile
  const auto after = files_.upper_bound(bytes.data());
  if (after == files_.begin()) return;
  const auto& [file, size] = *std::prev(after);
  if (bytes.data() + bytes.size() > file + size) return;
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + kPage - 1) / kPage * kPage;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / kPage * kPage;
  // The file has the bytes; what cannot be let go stays, which is no mistake.
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Status download(ObjectStore& store, const ObjectInfo& object, int fd, const MoveOptions& options,
                const std::stop_token& stop, const OnBytes& on_bytes) {
  // Also of an empty object there is one, which looks whether it still is.
  const int64_t parts =
      std::max<int64_t>(1, (object.size_bytes + options.part_bytes - 1) / options.part_bytes);
  std::atomic<int64_t> next = 0;
  Mutex mutex;
  Status first;  // guarded by mutex while the threads run
  std::atomic<bool> has_failed = false;
  const auto work = [&] {
    while (!has_failed && !stop.stop_requested()) {
      const int64_t part = next++;
      if (part >= parts) return;
      const int64_t offset = part * options.part_bytes;
      const int64_t length = std::min(options.part_bytes, object.size_bytes - offset);
      const Status moved = move_part(store, object, fd, offset, length);
      if (moved && on_bytes) on_bytes(length);
      if (moved) continue;
      MutexLock lock(mutex);
      if (first) first = moved;
      has_failed = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < std::min(parts, options.in_flight_max); ++i) threads.emplace_back(work);
    work();
  }
  if (first && stop.stop_requested()) return fail(Code::cancelled, "stopped");
  return first;
}

Result<FileDescriptor> open_nameless_file() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  FileDescriptor fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.is_open()) return fd;
  // Not every file system has files without names.
  std::string name = (folder / "tern_XXXXXX").string();
  FileDescriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named.is_open()) return file_error("make a temporary file in", folder, errno);
  ::unlink(name.c_str());
  return named;
}

Result<std::unique_ptr<ObjectBytes>> ObjectBytes::open(ObjectStore& store, const ObjectInfo& object,
                                                       const MoveOptions& options,
                                                       const std::stop_token& stop) {
  std::unique_ptr<ObjectBytes> bytes(new ObjectBytes(options));
  if (const auto path = store.local_path(object.name)) {
    const FileDescriptor fd(::open(path->c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info{};
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0) return file_error("read", *path, errno);
    RETURN_IF_ERROR(bytes->map(fd.get(), info.st_size, object.name));
    return bytes;
  }
  if (object.size_bytes <= options.part_bytes) {
    ASSIGN_OR_RETURN(bytes->bytes_, store.get(object.name));
    bytes->view_ = bytes->bytes_;
    return bytes;
  }
  ASSIGN_OR_RETURN(const FileDescriptor fd, open_nameless_file());
  RETURN_IF_ERROR(download(store, object, fd.get(), options, stop, nullptr));
  RETURN_IF_ERROR(bytes->map(fd.get(), object.size_bytes, object.name));
  return bytes;
}

Status ObjectBytes::map(int fd, int64_t size_bytes, const std::string& name) {
  if (size_bytes == 0) return {};
  void* const begin =
      ::mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ, MAP_PRIVATE, fd, 0);
  if (begin == MAP_FAILED) return file_error("map", name, errno);
  mapping_ = begin;
  view_ = BytesView(static_cast<const char*>(begin), static_cast<size_t>(size_bytes));
  if (options_.mapped != nullptr) options_.mapped->add(view_);
  return {};
}

ObjectBytes::~ObjectBytes() {
  if (mapping_ == nullptr) return;
  if (options_.mapped != nullptr) options_.mapped->remove(view_);
  ::munmap(mapping_, view_.size());
}

bool ObjectBytes::equals(const ObjectBytes& other) const {
  if (view_.size() != other.view_.size()) return false;
  const auto step = static_cast<size_t>(options_.part_bytes);
  for (size_t at = 0; at < view_.size(); at += step) {
    const BytesView ours = view_.substr(at, step);
    const BytesView theirs = other.view_.substr(at, step);
    if (ours != theirs) return false;
    let_go(ours);
    other.let_go(theirs);
  }
  return true;
}

void ObjectBytes::let_go(BytesView part) const {
  if (mapping_ != nullptr && options_.mapped != nullptr) options_.mapped->let_go(part);
}

}  // namespace tern
