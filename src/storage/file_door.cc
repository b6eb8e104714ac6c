#include "storage/file_door.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "storage/object_store.h"

namespace tern {
namespace {

constexpr mode_t kFileMode = 0666;    // less what the user's umask takes away
constexpr mode_t kFolderMode = 0777;  // likewise

struct Meaning {
  Code code;
  std::string_view next_step;
};

Meaning meaning_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return {Code::exhausted, "free some space, or use a folder on a larger disk"};
    case EFBIG: return {Code::exhausted, "raise the file size limit (ulimit -f)"};
    case EMFILE:
    case ENFILE: return {Code::exhausted, "raise the limit of open files (ulimit -n)"};
    case ENOMEM: return {Code::exhausted, "free some memory"};
    case EACCES:
    case EPERM: return {Code::permission_denied, "check who owns it and its mode (ls -l)"};
    case EROFS: return {Code::permission_denied, "use a folder on a writable file system"};
    case ENOENT: return {Code::not_found, "check the path"};
    case EEXIST: return {Code::already_exists, "use another name, or remove it first"};
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
      return {Code::failed_precondition,
              "a file stands where a folder is needed, or a folder where a file is; move it away"};
    case EXDEV: return {Code::failed_precondition, "keep the whole store on one file system"};
    case ENAMETOOLONG:
    case ELOOP: return {Code::invalid, "use a shorter path, without links to itself"};
    case EIO:
      // Not `corrupt`: a network file system answers so when its server is away for a moment, and
      // bytes that were not read cannot have been found wrong.
      return {Code::unavailable, "try again; if it stays, check the disk (dmesg)"};
    case EAGAIN:
    case EBUSY:
    case EINTR:
    case ESTALE:
    case ETIMEDOUT: return {Code::unavailable, "try again; if it stays, check the file server"};
    default: return {Code::internal, "report this with the line above it"};
  }
}

// For verbs that only look: a folder where a file was expected means that there is no such object.
Error look_error(std::string_view verb, const std::filesystem::path& path, int error_number) {
  const bool is_absent = error_number == ENOTDIR || error_number == EISDIR;
  return file_error(verb, path, is_absent ? ENOENT : error_number);
}

// A pipe, a device or a socket where an object should be: nobody's bytes, and some never end.
Error special_file_error(std::string_view verb, const std::filesystem::path& path) {
  return fail(Code::corrupt,
              fmt::format("cannot {} {}: it is no regular file but a pipe, a device or a socket; "
                          "remove it",
                          verb, path.string()));
}

// A folder means that there is no such object.
Status check_is_regular(std::string_view verb, const std::filesystem::path& path, mode_t mode) {
  if (S_ISREG(mode)) return {};
  return S_ISDIR(mode) ? look_error(verb, path, EISDIR) : special_file_error(verb, path);
}

struct OpenFile {
  FileDescriptor fd;
  int64_t size_bytes;
};

Result<OpenFile> open_to_read(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe that lies where a file should be is refused below, not waited for.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.is_open() && errno == ENXIO) return special_file_error("read", path);  // a socket
  if (!fd.is_open()) return look_error("read", path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return look_error("read", path, errno);
  RETURN_IF_ERROR(check_is_regular("read", path, info.st_mode));
  return OpenFile{std::move(fd), info.st_size};
}

// REQUIRES: offset + length is not past the size. Shorter only if the file was cut meanwhile.
Result<Bytes> read_at(const OpenFile& file, const std::filesystem::path& path, int64_t offset,
                      int64_t length) {
  Bytes bytes(static_cast<size_t>(length), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.fd.get(), bytes.data() + done, bytes.size() - done,
                                offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return look_error("read", path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

int sync_fd(int fd) {
  while (::fsync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Adds one folder's files to `files` and its folders to `folders`; both relative to `root`.
Status list_one(const std::filesystem::path& root, const std::string& folder,
                std::vector<FileInfo>& files, std::vector<std::string>& folders) {
  const std::filesystem::path path = folder.empty() ? root : root / folder;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(path.c_str()), &::closedir);
  if (!stream) return look_error("list", path, errno);
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return look_error("list", path, errno);
    if (entry == nullptr) return {};
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string relative =
        folder.empty() ? std::string(name) : fmt::format("{}/{}", folder, name);
    struct stat info{};
    const int at = ::dirfd(stream.get());
    // Only what is certainly gone is left out: whoever lists records takes what is not shown for
    // never written.
    if (::fstatat(at, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return look_error("list", root / relative, errno);
    }
    // A link to a file is listed as that file; a link to a folder is not followed, it may be a
    // loop.
    if (S_ISLNK(info.st_mode)) {
      if (::fstatat(at, entry->d_name, &info, 0) != 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) continue;  // it leads nowhere
        return look_error("list", root / relative, errno);
      }
      if (!S_ISREG(info.st_mode)) continue;
    }
    if (S_ISDIR(info.st_mode)) folders.push_back(relative);
    if (S_ISREG(info.st_mode)) files.push_back({relative, info.st_size});
  }
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat info_a{};
  struct stat info_b{};
  return ::stat(a.c_str(), &info_a) == 0 && ::stat(b.c_str(), &info_b) == 0 &&
         info_a.st_dev == info_b.st_dev && info_a.st_ino == info_b.st_ino;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Error file_error(std::string_view verb, const std::filesystem::path& path, int error_number) {
  const Meaning meaning = meaning_of(error_number);
  return fail(meaning.code,
              fmt::format("cannot {} {}: {}; {}", verb, path.string(),
                          std::generic_category().message(error_number), meaning.next_step));
}

int write_fully(int fd, BytesView bytes, size_t& written) {
  written = 0;
  while (written < bytes.size()) {
    const ssize_t put = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    written += static_cast<size_t>(put);
  }
  return 0;
}

Status RealFileDoor::write_new(const Path& path, BytesView bytes) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  if (!fd.is_open()) return file_error("write", path, errno);
  size_t written = 0;
  if (const int error = write_fully(fd.get(), bytes, written)) {
    return file_error("write", path, error);
  }
  if (const int error = sync_fd(fd.get())) return file_error("sync", path, error);
  return {};
}

Status RealFileDoor::link(const Path& from, const Path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return {};
  const int error = errno;
  // Over NFS a link whose reply was lost is sent again and then finds itself.
  if (error == EEXIST && is_same_file(from, to)) return {};
  if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS) {
    return fail(Code::failed_precondition,
                fmt::format("cannot link {}: this file system has no hard links; use a folder on "
                            "ext4, xfs, btrfs or NFS",
                            to.string()));
  }
  return file_error("link", to, error);
}

Status RealFileDoor::rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return file_error("rename to", to, errno);
  return {};
}

Status RealFileDoor::sync_folder(const Path& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return file_error("sync folder", folder, errno);
  const int error = sync_fd(fd.get());
  // EINVAL: this file system has no syncing of folders, so there is nothing more to be done.
  if (error != 0 && error != EINVAL) return file_error("sync folder", folder, error);
  return {};
}

Result<std::vector<FileDoor::Path>> RealFileDoor::make_folders(const Path& folder) {
  std::vector<Path> missing;
  Path at = folder;
  while (true) {
    struct stat info{};
    if (::stat(at.c_str(), &info) == 0) {
      if (!S_ISDIR(info.st_mode)) return file_error("make folder", at, ENOTDIR);
      break;
    }
    if (errno != ENOENT) return file_error("make folder", at, errno);
    missing.push_back(at);
    if (!at.has_parent_path() || at.parent_path() == at) break;
    at = at.parent_path();
  }
  std::reverse(missing.begin(), missing.end());
  for (const Path& path : missing) {
    // EEXIST: somebody else made it meanwhile. It counts as made, since it may not be synced yet.
    if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return file_error("make folder", path, errno);
    }
  }
  return missing;
}

Status RealFileDoor::remove(const Path& path) {
  if (::unlink(path.c_str()) != 0) return look_error("remove", path, errno);
  return {};
}

Result<Bytes> RealFileDoor::read(const Path& path) {
  ASSIGN_OR_RETURN(const OpenFile file, open_to_read(path));
  return read_at(file, path, 0, file.size_bytes);
}

Result<Bytes> RealFileDoor::read_range(const Path& path, int64_t offset, int64_t length) {
  ASSIGN_OR_RETURN(const OpenFile file, open_to_read(path));
  RETURN_IF_ERROR(check_object_range(path.string(), offset, length, file.size_bytes));
  return read_at(file, path, offset, std::min(length, file.size_bytes - offset));
}

Result<int64_t> RealFileDoor::size_bytes(const Path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return look_error("stat", path, errno);
  RETURN_IF_ERROR(check_is_regular("stat", path, info.st_mode));
  return int64_t{info.st_size};
}

Result<std::string> RealFileDoor::folder_identity(const Path& folder) {
  struct statx info{};
  constexpr unsigned kWanted = STATX_TYPE | STATX_INO | STATX_BTIME;
  if (::statx(AT_FDCWD, folder.c_str(), 0, kWanted, &info) != 0) {
    return look_error("look at", folder, errno);
  }
  if (!S_ISDIR(info.stx_mode)) return look_error("look at", folder, ENOTDIR);
  // With the time of its birth, where the file system has it, because numbers are used again.
  return fmt::format("{}:{}.{}.{}.{}", info.stx_dev_major, info.stx_dev_minor, info.stx_ino,
                     info.stx_btime.tv_sec, info.stx_btime.tv_nsec);
}

Result<std::vector<FileInfo>> RealFileDoor::list(const Path& folder) {
  std::vector<FileInfo> files;
  std::vector<std::string> folders;
  RETURN_IF_ERROR(list_one(folder, "", files, folders));
  while (!folders.empty()) {
    const std::string next = std::move(folders.back());
    folders.pop_back();
    const Status listed = list_one(folder, next, files, folders);
    // A folder that went away since it was seen had nothing in it.
    if (!listed && listed.error().code != Code::not_found) return listed.error();
  }
  return files;
}

}  // namespace tern
