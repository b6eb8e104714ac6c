#include "dataset/stage_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "core/crc32c.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSyncBytesMin = int64_t{1} << 20;
constexpr mode_t kFileMode = 0666;  // less what the user's umask takes away

StageResult disk_failed(std::string_view verb, const fs::path& path, int error_number) {
  return {StageOutcome::disk_failed, file_error(verb, path, error_number)};
}

// 0, or the errno; EIO if the file ends before.
int checksum_at(int fd, int64_t offset, int64_t length, Bytes& room, uint32_t& sum) {
  sum = 0;
  while (length > 0) {
    const auto wanted = static_cast<size_t>(std::min<int64_t>(length, std::ssize(room)));
    const ssize_t got = ::pread(fd, room.data(), wanted, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 ? EIO : errno;
    sum = crc32c(BytesView(room.data(), static_cast<size_t>(got)), sum);
    offset += got;
    length -= got;
  }
  return 0;
}

// What lies under the target's name was verified once. Its size, first and last sample are looked
// at again: they tell what a crash of the machine tore, and what is of another packing of the same
// samples, which has the same id.
bool is_whole(const StageCopy& copy, Bytes& room) {
  const FileDescriptor fd(
      ::open(copy.target.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (info.st_size != copy.index.file_bytes(copy.file)) return false;
  if (copy.samples.empty()) return true;
  // No more than the file: there may be a million small ones.
  room.resize(static_cast<size_t>(
      std::clamp<int64_t>(copy.index.file_bytes(copy.file), 1, copy.block_bytes)));
  for (const int64_t sample : {copy.samples.front(), copy.samples.back()}) {
    const IndexEntry& entry = copy.index.entry(sample);
    uint32_t sum = 0;
    const auto offset = static_cast<int64_t>(entry.offset);
    if (checksum_at(fd.get(), offset, entry.length, room, sum) != 0) return false;
    if (sum != entry.crc32c) return false;
  }
  return true;
}

bool is_named(int fd, const fs::path& path) {
  struct stat held{};
  struct stat named{};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

int lock_now(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int sync_fully(int fd) {
  while (::fdatasync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// The locked TARGET.part; removed with its scope unless it was published.
class PartFile {
 public:
  PartFile(FileDescriptor fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}
  ~PartFile() {
    // Before the lock goes with the descriptor: afterwards the name may be another's.
    if (fd_.is_open() && !is_published_) ::unlink(path_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int fd() const { return fd_.get(); }
  const fs::path& path() const { return path_; }

  int publish(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return errno;
    is_published_ = true;
    return 0;
  }

 private:
  FileDescriptor fd_;
  fs::path path_;
  bool is_published_ = false;
};

// Nothing if the part is ours; else what became of the target meanwhile.
std::optional<StageResult> claim(const StageCopy& copy, Bytes& room,
                                 std::optional<PartFile>& part) {
  fs::path path = copy.target;
  path += ".part";
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    if (is_whole(copy, room)) return StageResult{StageOutcome::here};
    FileDescriptor fd(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kFileMode));
    if (!fd.is_open()) return disk_failed("make", path, errno);
    const int error_number = lock_now(fd.get());
    if (error_number == EWOULDBLOCK) return StageResult{StageOutcome::elsewhere};
    if (error_number != 0) return disk_failed("lock", path, error_number);
    // Between our open and our lock its owner may have published or removed the file that we hold.
    if (!is_named(fd.get(), path)) continue;
    part.emplace(std::move(fd), path);
    if (is_whole(copy, room)) return StageResult{StageOutcome::here};
    return std::nullopt;
  }
  return StageResult{StageOutcome::elsewhere};  // busy with it, whoever they are
}

StageResult copy_bytes(const StageCopy& copy, const PartFile& part, Bytes& block,
                       const std::stop_token& stop) {
  if (::ftruncate(part.fd(), 0) != 0) return disk_failed("write", part.path(), errno);
  const int64_t size_bytes = copy.index.file_bytes(copy.file);
  for (int64_t offset = 0; offset < size_bytes; offset += copy.block_bytes) {
    if (stop.stop_requested()) return {StageOutcome::stopped};
    const int64_t length = std::min(copy.block_bytes, size_bytes - offset);
    if (Status read = copy.source.read(copy.file, offset, length, block); !read) {
      return {StageOutcome::source_failed, read.error()};
    }
    size_t written = 0;
    const int error_number = write_fully(part.fd(), block, written);
    if (error_number != 0) return disk_failed("write", part.path(), error_number);
  }
  return {};
}

// Of what lies in the file, not of what passed by: a disk that writes something else is found too.
StageResult verify(const StageCopy& copy, const PartFile& part, Bytes& room,
                   const std::stop_token& stop) {
  room.resize(static_cast<size_t>(copy.block_bytes));
  for (const int64_t sample : copy.samples) {
    if (stop.stop_requested()) return {StageOutcome::stopped};
    const IndexEntry& entry = copy.index.entry(sample);
    uint32_t sum = 0;
    const int error_number =
        checksum_at(part.fd(), static_cast<int64_t>(entry.offset), entry.length, room, sum);
    if (error_number != 0) return disk_failed("read", part.path(), error_number);
    if (sum != entry.crc32c) {
      return {StageOutcome::source_failed,
              fail(Code::corrupt,
                   fmt::format("the copy of sample '{}' at offset {} differs from the index's "
                               "checksum; if it stays, run `tern data verify` on the source",
                               copy.index.name(sample), entry.offset))};
    }
  }
  return {};
}

StageResult publish(const StageCopy& copy, PartFile& part) {
  if (copy.index.file_bytes(copy.file) >= kSyncBytesMin) {
    const int error_number = sync_fully(part.fd());
    if (error_number != 0) return disk_failed("sync", part.path(), error_number);
  }
  const int error_number = part.publish(copy.target);
  if (error_number != 0) return disk_failed("rename", part.path(), error_number);
  return {StageOutcome::here};
}

StageResult claim_and_copy(const StageCopy& copy, Bytes& block, const std::stop_token& stop) {
  std::error_code error;
  fs::create_directories(copy.target.parent_path(), error);
  if (error) return disk_failed("make", copy.target.parent_path(), error.value());
  std::optional<PartFile> part;
  if (std::optional<StageResult> settled = claim(copy, block, part)) return *settled;
  StageResult result = copy_bytes(copy, *part, block, stop);
  if (result.outcome == StageOutcome::here) result = verify(copy, *part, block, stop);
  if (result.outcome == StageOutcome::here) result = publish(copy, *part);
  return result;
}

}  // namespace

StageResult stage_copy(const StageCopy& copy, Bytes& block, std::stop_token stop) {
  try {
    return claim_and_copy(copy, block, stop);
  } catch (const std::bad_alloc&) {
    return {StageOutcome::source_failed,
            fail(Code::exhausted, "no memory to copy it; use a machine with more")};
  }
}

}  // namespace tern
