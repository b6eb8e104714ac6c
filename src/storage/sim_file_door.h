// A FileDoor in memory whose machine can crash: what was not synced is then gone, as on a disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "storage/file_door.h"

namespace tern {

// For tests. Safe from any thread. Paths are absolute; "/" is always there.
//
//   door.crash_at(door.operations() + 3);  // the third operation from here finds no machine
//   ... use a DiskStore over it: everything fails from there on ...
//   door.crash(Unsynced::lost);            // the machine is back, with what it had synced
class SimFileDoor final : public FileDoor {
 public:
  // What becomes of things not synced. A real disk may do either, name by name.
  enum class Unsynced {
    lost,        // names go back to the last sync_folder(), bytes to the last sync
    names_kept,  // the folder happened to be written, the bytes only in half
  };

  Status write_new(const Path& path, BytesView bytes) override;
  Status link(const Path& from, const Path& to) override;
  Status rename(const Path& from, const Path& to) override;
  Status sync_folder(const Path& folder) override;
  Result<std::vector<Path>> make_folders(const Path& folder) override;
  Status remove(const Path& path) override;
  Result<Bytes> read(const Path& path) override;
  Result<Bytes> read_range(const Path& path, int64_t offset, int64_t length) override;
  Result<int64_t> size_bytes(const Path& path) override;
  Result<std::string> folder_identity(const Path& folder) override;
  Result<std::vector<FileInfo>> list(const Path& folder) override;
  bool is_on_this_machine() const override { return false; }

  // Operation number `operation` (the first ever is 1) and all later ones do nothing and fail with
  // `unavailable`, until crash(). A write_new() is three: make, write, sync.
  void crash_at(int64_t operation);
  void crash(Unsynced unsynced);
  int64_t operations();

 private:
  struct Node {
    bool is_folder = false;
    Bytes bytes;
    Bytes synced_bytes;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  // Counts one operation; fails if the machine is gone.
  Status step() REQUIRES(mutex_);
  Result<std::shared_ptr<Node>> find_file(const Path& path) REQUIRES(mutex_);
  bool is_folder(const Path& path) REQUIRES(mutex_);

  Mutex mutex_;
  Names names_ GUARDED_BY(mutex_);
  Names synced_names_ GUARDED_BY(mutex_);
  int64_t operations_ GUARDED_BY(mutex_) = 0;
  int64_t crash_at_ GUARDED_BY(mutex_) = 0;  // 0: never
};

}  // namespace tern
