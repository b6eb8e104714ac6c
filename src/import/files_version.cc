#include "import/files_version.h"

#include <sys/stat.h>

namespace tern {

std::optional<FileStamp> FileStamp::of(const std::filesystem::path& file) {
  constexpr int64_t kNanoseconds = 1'000'000'000;
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return {};
  return FileStamp{info.st_size,
                   int64_t{info.st_mtim.tv_sec} * kNanoseconds + info.st_mtim.tv_nsec};
}

void FilesVersion::add(std::string_view name, const FileStamp& stamp) {
  hash_.update_field(name);
  hash_.update_number(static_cast<uint64_t>(stamp.size_bytes));
  hash_.update_number(static_cast<uint64_t>(stamp.written_ns));
}

void FilesVersion::add(const std::filesystem::path& file) {
  add(file.filename().string(), FileStamp::of(file).value_or(FileStamp()));
}

std::string FilesVersion::finish() { return to_hex(hash_.finish()).substr(0, 16); }

}  // namespace tern
