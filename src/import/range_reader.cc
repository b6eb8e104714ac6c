#include "import/range_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tern {
namespace {

Error ends_early(const std::filesystem::path& path, const FileRange& range) {
  return fail(Code::corrupt,
              fmt::format("{} ends before the sample at {} does; it was changed while it was read, "
                          "or its copy is not whole: fetch it again, then run the same command",
                          path.string(), range.offset));
}

}  // namespace

RangeReader::RangeReader(std::filesystem::path root) : root_(std::move(root)) {}

Status RangeReader::open(const std::string& file) {
  if (fd_ && file == open_file_) return {};
  fd_.reset();
  const std::filesystem::path path = root_ / file;
  // O_NONBLOCK: a pipe that took the file's place is refused below, not waited for.
  auto fd =
      std::make_unique<FileDescriptor>(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd->is_open()) return file_error("read", path, errno);
  struct stat info{};
  if (::fstat(fd->get(), &info) != 0) return file_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::invalid, fmt::format("cannot read {}: it is no regular file; remove it from "
                                           "the source and run the same command",
                                           path.string()));
  }
  size_bytes_ = info.st_size;
  open_file_ = file;
  fd_ = std::move(fd);
  return {};
}

Result<Bytes> RangeReader::read(const FileRange& range) {
  RETURN_IF_ERROR(open(range.file));
  if (range.offset < 0 || range.length < 0 || range.offset > size_bytes_ ||
      range.length > size_bytes_ - range.offset) {
    return ends_early(root_ / range.file, range);
  }
  Bytes bytes(static_cast<size_t>(range.length), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(fd_->get(), bytes.data() + done, bytes.size() - done,
                                range.offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", root_ / range.file, errno);
    if (got == 0) return ends_early(root_ / range.file, range);
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace tern
