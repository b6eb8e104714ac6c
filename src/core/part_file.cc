#include "core/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/system_files.h"

namespace tern {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kVersionCharsMax = 1024;
// How often the part that was opened may turn out to have become FILE meanwhile.
constexpr int kOpenAttemptsMax = 5;

Code code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE: return Code::exhausted;
    case EACCES:
    case EPERM:
    case EROFS: return Code::permission_denied;
    case ENOENT: return Code::not_found;
    case ENOTDIR:
    case EISDIR: return Code::failed_precondition;
    default: return Code::internal;
  }
}

// The text goes back to the server as a header, so it must be one line.
std::string read_version(const std::filesystem::path& file) {
  std::string text = read_system_file(file);
  const bool is_header = text.size() <= kVersionCharsMax && text == printable_line(text);
  return is_header ? text : "";
}

// Returns the errno; 0 for success.
int write_all(int fd, BytesView bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return 0;
}

int sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

int write_version(const std::filesystem::path& file, const std::string& version) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  const int error = write_all(fd, version, 0);
  ::close(fd);
  return error;
}

}  // namespace

PartFile::PartFile(const std::filesystem::path& file, std::string sha256)
    : file_(file),
      part_(file.string() + ".part"),
      version_file_(file.string() + ".part.etag"),
      sha256_(std::move(sha256)) {}

PartFile::~PartFile() {
  if (fd_ >= 0) ::close(fd_);
}

Error PartFile::error(const char* verb, int error_number) const {
  const Code code = code_of(error_number);
  return fail(code,
              fmt::format("cannot {} {}: {}; {}", verb, part_.string(),
                          std::generic_category().message(error_number),
                          code == Code::exhausted ? "free some space, then the same command goes on"
                                                  : "check the folder and who may write there"));
}

Result<std::unique_ptr<PartFile>> PartFile::open(const std::filesystem::path& file,
                                                 const std::string& sha256, std::stop_token stop) {
  std::unique_ptr<PartFile> part(new PartFile(file, sha256));
  RETURN_IF_ERROR(part->open_and_lock());
  part->version_ = read_version(part->version_file_);
  RETURN_IF_ERROR(part->read_back(std::move(stop)));
  return part;
}

Status PartFile::open_and_lock() {
  for (int attempt = 0; attempt < kOpenAttemptsMax; ++attempt) {
    if (fd_ >= 0) ::close(fd_);
    // O_NONBLOCK: a pipe that lies there is refused below, not waited for.
    fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd_ < 0) return error("write", errno);
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return fail(
          Code::failed_precondition,
          fmt::format("another process is fetching {}; wait until it has ended", file_.string()));
    }
    struct stat opened{};
    struct stat named{};
    if (::fstat(fd_, &opened) != 0) return error("read", errno);
    if (!S_ISREG(opened.st_mode)) return error("write to what is no file,", EISDIR);
    // Whoever held the lock before may have given the part its final name.
    if (::stat(part_.c_str(), &named) == 0 && named.st_ino == opened.st_ino) return {};
  }
  return fail(Code::failed_precondition,
              fmt::format("{} keeps vanishing; does another process fetch it?", part_.string()));
}

Status PartFile::read_back(std::stop_token stop) {
  if (!sha256_.empty()) hash_ = std::make_unique<Sha256>();
  struct stat info{};
  if (::fstat(fd_, &info) != 0) return error("read", errno);
  if (hash_ == nullptr) {
    size_bytes_ = info.st_size;
    return {};
  }
  Bytes block(kBlockBytes, '\0');
  while (size_bytes_ < info.st_size) {
    if (stop.stop_requested()) return fail(Code::cancelled, "fetching was stopped");
    const ssize_t got = ::pread(fd_, block.data(), block.size(), size_bytes_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error("read", errno);
    if (got == 0) break;
    hash_->update(BytesView(block).substr(0, static_cast<size_t>(got)));
    size_bytes_ += got;
  }
  return {};
}

Status PartFile::restart(const std::string& version) {
  // In this order: the part must never be found beside a version it is not of.
  if (::unlink(version_file_.c_str()) != 0 && errno != ENOENT) return error("renew", errno);
  if (::ftruncate(fd_, 0) != 0 || ::fsync(fd_) != 0) return error("empty", errno);
  size_bytes_ = 0;
  version_ =
      version.size() <= kVersionCharsMax && version == printable_line(version) ? version : "";
  if (hash_ != nullptr) hash_ = std::make_unique<Sha256>();
  const int error_number = version_.empty() ? 0 : write_version(version_file_, version_);
  return error_number == 0 ? Status() : error("write", error_number);
}

Status PartFile::append(BytesView bytes) {
  if (const int error_number = write_all(fd_, bytes, size_bytes_); error_number != 0) {
    return error("write", error_number);
  }
  if (hash_ != nullptr) hash_->update(bytes);
  size_bytes_ += static_cast<int64_t>(bytes.size());
  return {};
}

Status PartFile::finish() {
  if (hash_ != nullptr) {
    const std::string found = to_hex(hash_->finish());
    if (found != sha256_) {
      discard();
      return fail(Code::corrupt,
                  fmt::format("what arrived for {} has the sha256 {}, not {}; it is removed. Try "
                              "again; if it stays, the file has been changed where it comes from",
                              file_.string(), found, sha256_));
    }
  }
  // A write that failed half way may have left bytes behind the end.
  if (::ftruncate(fd_, size_bytes_) != 0 || ::fsync(fd_) != 0) return error("write", errno);
  if (::rename(part_.c_str(), file_.c_str()) != 0) return error("give its name to", errno);
  ::unlink(version_file_.c_str());
  const int error_number = sync_folder(file_.parent_path());
  return error_number == 0 ? Status() : error("write", error_number);
}

void PartFile::discard() {
  ::unlink(version_file_.c_str());
  ::unlink(part_.c_str());
}

}  // namespace tern
