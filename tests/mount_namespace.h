// Disks for tests: small ones, and ones that cannot be written, in a mount namespace of the test
// program's own, so that nothing of them is seen outside and nothing of them is left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tern {

// Moves this process, and so those it starts, into a mount namespace of its own; again, if it is in
// one already. Needs root, or a kernel that gives users namespaces. What stands in the way, if it
// is refused: a test then skips by that name. REQUIRES: this process has one thread.
std::optional<std::string> enter_mount_namespace();

// A file system in memory, mounted on a folder until the object goes.
// REQUIRES: enter_mount_namespace() said nothing.
class SmallDisk {
 public:
  // Makes the folder if it is missing.
  SmallDisk(std::filesystem::path folder, int64_t size_bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Takes all that is free, by a file of its own; and gives it back.
  void fill();
  void free_again();

  // Whoever uses the folder's path from now on finds a disk that cannot be written, as after an
  // error of the disk. Files that are open already are not touched: no disk turns read-only by
  // command while one writes to it.
  void make_read_only();
  void make_writable_again();

 private:
  std::filesystem::path filler() const { return folder_ / "filler"; }

  const std::filesystem::path folder_;
  bool is_read_only_ = false;
};

}  // namespace tern
