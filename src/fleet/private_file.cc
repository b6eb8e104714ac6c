#include "fleet/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/token.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// The bytes under a name of their own beside the file.
Result<fs::path> write_beside(const fs::path& file, BytesView bytes) {
  ASSIGN_OR_RETURN(const std::string token, random_token());
  const fs::path part = file.string() + ".part." + token.substr(0, 12);
  const FileDescriptor fd(open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.is_open()) return file_error("write", part, errno);
  size_t written = 0;
  int error = write_fully(fd.get(), bytes, written);
  if (error == 0 && fsync(fd.get()) != 0) error = errno;
  if (error == 0) return part;
  unlink(part.c_str());
  return file_error("write", part, error);
}

}  // namespace

Status make_private_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return {};
  if (folder.has_parent_path() && folder.parent_path() != folder) {
    RETURN_IF_ERROR(make_private_folder(folder.parent_path()));
  }
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return file_error("make", folder, errno);
}

Status write_private_file(const fs::path& file, BytesView bytes) {
  ASSIGN_OR_RETURN(const fs::path part, write_beside(file, bytes));
  if (::rename(part.c_str(), file.c_str()) == 0) return {};
  const int error = errno;
  unlink(part.c_str());
  return file_error("write", file, error);
}

Status create_private_file(const fs::path& file, BytesView bytes) {
  ASSIGN_OR_RETURN(const fs::path part, write_beside(file, bytes));
  const int error = ::link(part.c_str(), file.c_str()) == 0 ? 0 : errno;
  unlink(part.c_str());
  if (error == 0) return {};
  if (error == EEXIST) {
    return fail(Code::already_exists, fmt::format("{} is there already", file.string()));
  }
  return file_error("write", file, error);
}

Result<Bytes> read_private_file(const fs::path& file, size_t bytes_max) {
  const FileDescriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return file_error("read", file, errno);
  Bytes bytes(bytes_max + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read", file, errno);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  if (size > bytes_max) {
    return fail(Code::corrupt, fmt::format("{} is larger than {} bytes; it is not ours",
                                           file.string(), bytes_max));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace tern
