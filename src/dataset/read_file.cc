#include "dataset/read_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tern {
namespace {

// Large enough that the calls cost nothing beside inflating.
constexpr size_t kChunkBytes = size_t{1} << 18;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Error open_error(const std::string& path, int error_number) {
  if (error_number == ENOENT || error_number == ENOTDIR) {
    return fail(
        Code::not_found,
        fmt::format("there is no file {}; set data.path to the folder that holds it", path));
  }
  if (error_number == EACCES || error_number == EPERM) {
    return fail(Code::permission_denied,
                fmt::format("may not read {}; make it readable for this user", path));
  }
  return fail(Code::unavailable, fmt::format("cannot read {}: {}; check the disk it is on", path,
                                             std::strerror(error_number)));
}

Error too_large(const std::string& path, int64_t bytes_max) {
  return fail(Code::exhausted, fmt::format("{} holds more than {} bytes; if that is right, raise "
                                           "data.file_bytes_max, else fetch the file again",
                                           path, bytes_max));
}

Error damaged_gzip(const std::string& path, const char* what) {
  return fail(Code::corrupt,
              fmt::format("{} is not a whole gzip file: {}; fetch it again", path, what));
}

struct OpenFile {
  File file;
  int64_t bytes;
};

Result<OpenFile> open_regular_file(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) return open_error(path, errno);
  struct stat info{};
  if (fstat(fileno(file.get()), &info) != 0) return open_error(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(
        Code::invalid,
        fmt::format("{} is not a regular file; set data.path to a folder of data files", path));
  }
  return OpenFile{std::move(file), info.st_size};
}

Result<bool> starts_as_gzip(std::FILE* file, const std::string& path) {
  char magic[2];
  const bool matches =
      std::fread(magic, 1, 2, file) == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
  if (std::ferror(file) || std::fseek(file, 0, SEEK_SET) != 0) return open_error(path, errno);
  return matches;
}

Result<Bytes> read_plain(const OpenFile& from, const std::string& path, int64_t bytes_max) {
  if (from.bytes > bytes_max) return too_large(path, bytes_max);
  Bytes content(static_cast<size_t>(from.bytes), '\0');
  const size_t got = std::fread(content.data(), 1, content.size(), from.file.get());
  if (got == content.size()) return content;
  if (std::ferror(from.file.get())) return open_error(path, errno);
  return fail(Code::unavailable,
              fmt::format("{} became shorter while it was read; wait until it is written, then try "
                          "again",
                          path));
}

// Inflates a gzip file that arrives in pieces: one member after another, though most have one.
class Inflater {
 public:
  Inflater(const std::string& path, int64_t bytes_max) : path_(path), bytes_max_(bytes_max) {
    constexpr int kGzipOnly = 15 + 16;  // the largest window, gzip's header and trailer
    ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Status feed(char* piece, size_t bytes) {
    if (!ready_) {
      return fail(Code::exhausted, "no memory to inflate " + path_ + "; free some and try again");
    }
    stream_.next_in = reinterpret_cast<Bytef*>(piece);
    stream_.avail_in = static_cast<uInt>(bytes);
    // Output that finds no room stays inside zlib until the next call; there is one, because gzip's
    // trailer follows all output.
    while (stream_.avail_in > 0) RETURN_IF_ERROR(inflate_some());
    return {};
  }

  Result<Bytes> finish() {
    if (in_member_) return damaged_gzip(path_, "it ends too early");
    return std::move(content_);
  }

 private:
  Status inflate_some() {
    if (!in_member_) {
      inflateReset(&stream_);
      in_member_ = true;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(room_.data());
    stream_.avail_out = static_cast<uInt>(room_.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    // A buffer error only says that this piece is used up.
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return damaged_gzip(path_, stream_.msg != nullptr ? stream_.msg : "inflate failed");
    }
    content_.append(room_.data(), room_.size() - stream_.avail_out);
    if (static_cast<int64_t>(content_.size()) > bytes_max_) return too_large(path_, bytes_max_);
    in_member_ = code != Z_STREAM_END;
    return {};
  }

  const std::string& path_;
  const int64_t bytes_max_;
  z_stream stream_{};
  bool ready_ = false;
  bool in_member_ = true;  // an empty file is no gzip file
  std::vector<char> room_ = std::vector<char>(kChunkBytes);
  Bytes content_;
};

Result<Bytes> inflate_file(std::FILE* file, const std::string& path, int64_t bytes_max) {
  Inflater inflater(path, bytes_max);
  std::vector<char> piece(kChunkBytes);
  while (true) {
    const size_t got = std::fread(piece.data(), 1, piece.size(), file);
    if (std::ferror(file)) return open_error(path, errno);
    if (got == 0) return inflater.finish();
    RETURN_IF_ERROR(inflater.feed(piece.data(), got));
  }
}

}  // namespace

Result<Bytes> read_data_file(const std::string& path, int64_t bytes_max) {
  ASSIGN_OR_RETURN(OpenFile from, open_regular_file(path));
  ASSIGN_OR_RETURN(const bool is_gzip, starts_as_gzip(from.file.get(), path));
  if (is_gzip) return inflate_file(from.file.get(), path, bytes_max);
  return read_plain(from, path, bytes_max);
}

}  // namespace tern
