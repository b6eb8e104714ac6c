#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "import/archive.h"
#include "import/archive_input.h"
#include "import/member_path.h"
#include "storage/file_door.h"

namespace tern {

bool looks_like_archive(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 11> kEndings = {
      ".tar",    ".zip",     ".tgz",    ".tbz2",    ".txz",     ".tzst",
      ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lzma"};
  const std::string name = lower_case(file.filename().string());
  if (std::any_of(kEndings.begin(), kEndings.end(),
                  [&](std::string_view ending) { return name.ends_with(ending); })) {
    return true;
  }
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  constexpr size_t kTarBlockBytes = 512;
  const Bytes begin = FileInput(fd.get(), name, 0, info.st_size, nullptr).peek(0, kTarBlockBytes);
  using namespace std::string_view_literals;
  for (const BytesView magic :
       {"PK\x03\x04"sv, "\x1f\x8b"sv, "\xfd\x37zXZ\0"sv, "\x28\xb5\x2f\xfd"sv, "BZh"sv}) {
    if (begin.starts_with(magic)) return true;
  }
  return begin.size() == kTarBlockBytes && begin.compare(257, 5, "ustar") == 0;
}

}  // namespace tern
