#include "cli/doctor_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kSmallBytes = 4096;
// No disk reads as fast as this; then the kernel has answered from its memory.
constexpr double kReadFromMemoryMbS = 40000;

struct FileSystem {
  int64_t free_bytes = 0;
  std::string kind;
};

std::string kind_of(int64_t magic) {
  struct Known {
    int64_t magic;
    const char* kind;
  };
  // statfs(2)
  constexpr std::array<Known, 9> kKnown = {{{0xEF53, "ext4"},
                                            {0x58465342, "xfs"},
                                            {0x9123683E, "btrfs"},
                                            {0x2FC12FC1, "zfs"},
                                            {0x01021994, "tmpfs"},
                                            {0x794C7630, "overlay"},
                                            {0x6969, "nfs"},
                                            {0x65735546, "fuse"},
                                            {0x0BD00BD0, "lustre"}}};
  for (const Known& known : kKnown) {
    if (known.magic == magic) return known.kind;
  }
  return "";
}

Result<FileSystem> read_file_system(const fs::path& folder) {
  struct statfs about{};
  if (statfs(folder.c_str(), &about) != 0) return file_error("look at", folder, errno);
  return FileSystem{.free_bytes = static_cast<int64_t>(about.f_bavail) * about.f_bsize,
                    .kind = kind_of(static_cast<int64_t>(about.f_type) & 0xFFFFFFFF)};
}

// A file without a name. Where the file system cannot make one, a name that is removed at once.
Result<FileDescriptor> open_nameless(const fs::path& folder) {
  FileDescriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open()) return file;
  std::string name = (folder / ".tern_doctor_XXXXXX").string();
  FileDescriptor named(mkostemp(name.data(), O_CLOEXEC));
  if (!named.is_open()) return file_error("make a file in", folder, errno);
  unlink(name.c_str());
  return named;
}

double mb_per_second(int64_t bytes, Nanoseconds duration) {
  const double seconds = std::max(1e-9, to_seconds(duration));
  return static_cast<double>(bytes) / 1e6 / seconds;
}

// Writes and syncs chunk after chunk, so that no more than one chunk is ever owed to a slow disk.
Status write_chunks(int file, const fs::path& folder, Clock& clock, Nanoseconds limit,
                    int64_t bytes_max, DiskSpeed& speed) {
  std::string chunk(static_cast<size_t>(std::min(kChunkBytes, bytes_max)), '\0');
  // Not zeros: some file systems store none.
  uint32_t noise = 1;
  for (char& byte : chunk) {
    noise = noise * 1664525 + 1013904223;
    byte = static_cast<char>(noise >> 24);
  }
  const Nanoseconds begin = clock.now();
  Nanoseconds now = begin;
  while (speed.bytes < bytes_max && now - begin < limit) {
    size_t written = 0;
    if (const int error = write_fully(file, chunk, written); error != 0) {
      return file_error("write in", folder, error);
    }
    if (fdatasync(file) != 0) return file_error("sync in", folder, errno);
    speed.bytes += static_cast<int64_t>(written);
    now = clock.now();
  }
  speed.write_mb_s = mb_per_second(speed.bytes, now - begin);
  return {};
}

Status read_chunks(int file, const fs::path& folder, Clock& clock, Nanoseconds limit,
                   DiskSpeed& speed) {
  std::vector<char> chunk(kChunkBytes);
  // What was just written is in memory; the kernel is asked to forget it, and may refuse.
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  const Nanoseconds begin = clock.now();
  Nanoseconds now = begin;
  int64_t bytes = 0;
  while (bytes < speed.bytes && now - begin < limit) {
    const ssize_t count = pread(file, chunk.data(), chunk.size(), bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read in", folder, errno);
    if (count == 0) break;
    bytes += count;
    now = clock.now();
  }
  const double mb_s = mb_per_second(bytes, now - begin);
  const bool is_in_memory = speed.kind == "tmpfs" || mb_s > kReadFromMemoryMbS;
  if (bytes > 0 && !is_in_memory) speed.read_mb_s = mb_s;
  return {};
}

// The median of small writes that are synced, as a checkpoint's are.
Status sync_often(int file, const fs::path& folder, Clock& clock, const DiskTest& test,
                  DiskSpeed& speed) {
  const std::array<char, kSmallBytes> small{};
  std::vector<double> times_ms;
  const Nanoseconds begin = clock.now();
  for (int i = 0; i < test.fsyncs_max && clock.now() - begin < test.limit; ++i) {
    const Nanoseconds before = clock.now();
    // At the end, so that the file's length must be stored as well.
    if (pwrite(file, small.data(), small.size(), speed.bytes + i * kSmallBytes) < 0) {
      return file_error("write in", folder, errno);
    }
    if (fsync(file) != 0) return file_error("sync in", folder, errno);
    times_ms.push_back(1000 * to_seconds(clock.now() - before));
  }
  if (times_ms.empty()) return {};
  const auto middle = times_ms.begin() + static_cast<std::ptrdiff_t>(times_ms.size() / 2);
  std::nth_element(times_ms.begin(), middle, times_ms.end());
  speed.fsync_ms = *middle;
  return {};
}

}  // namespace

Result<DiskSpeed> measure_disk(const fs::path& folder, Clock& clock, const DiskTest& test) {
  ASSIGN_OR_RETURN(const FileSystem system, read_file_system(folder));
  const int64_t bytes = std::min(test.bytes_max, system.free_bytes / 10);
  if (bytes < kSmallBytes) {
    return fail(Code::exhausted,
                fmt::format("the disk below {} is full; free some space", folder.string()));
  }
  ASSIGN_OR_RETURN(const FileDescriptor file, open_nameless(folder));
  DiskSpeed speed{.folder = folder.string(), .kind = system.kind, .free_bytes = system.free_bytes};
  RETURN_IF_ERROR(write_chunks(file.get(), folder, clock, test.limit, bytes, speed));
  RETURN_IF_ERROR(sync_often(file.get(), folder, clock, test, speed));
  RETURN_IF_ERROR(read_chunks(file.get(), folder, clock, test.limit, speed));
  return speed;
}

}  // namespace tern
