// An ObjectStore of plain files under one folder: an object NAME is the file root/NAME.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "storage/file_door.h"
#include "storage/object_store.h"

namespace tern {

// An object is the file root/name, never half: it is written and synced under another name in
// root/.tmp, then renamed (put) or linked (create) into place, then its folder is synced. A crash
// leaves at most a file in .tmp, which the first put or create of a later store sweeps.
//
// Safe from any thread, and between processes on one file system. Every call blocks on the disk.
// Nothing is made before the first put or create, so that looking at a folder leaves no trace.
// A name that begins with ".tmp" as its first part is `invalid`.
//
// Once it has written, a store stays with its folder: if that is moved or removed, nothing is made
// anew in its place. Writes then fail with `unavailable`, until it is put back; and with `aborted`
// if another folder stands there, because that is somebody else's.
class DiskStore final : public ObjectStore {
 public:
  // `door` must outlive the store. Fails if the root is something else than a folder.
  static Result<std::unique_ptr<DiskStore>> open(const std::filesystem::path& root, FileDoor& door);

  Result<Bytes> get(const std::string& name) override;
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override;
  Status put(const std::string& name, BytesView bytes) override;
  Status create(const std::string& name, BytesView bytes) override;
  Result<ObjectInfo> stat(const std::string& name) override;
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override;
  Status remove(const std::string& name) override;
  std::optional<std::filesystem::path> local_path(const std::string& name) const override;

 private:
  enum class Publish { replace, create_only };

  DiskStore(std::filesystem::path root, FileDoor& door);

  Status publish(const std::string& name, BytesView bytes, Publish how);
  // Is root_ still the folder that was written to?
  Status check_root();
  void remember_root();
  Status publish_once(const std::filesystem::path& target, BytesView bytes, Publish how);
  // Makes the folder, and makes sure once that a crash does not lose it or its parents.
  Status prepare_folder(const std::filesystem::path& folder);
  Result<std::filesystem::path> write_temp(BytesView bytes);
  // Removes what dead processes left in .tmp. Best effort: a leftover costs only space.
  void sweep_temps();

  // Constant after construction.
  const std::filesystem::path root_;
  const std::filesystem::path temps_;
  FileDoor& door_;

  std::atomic<uint64_t> temps_made_ = 0;
  std::atomic<bool> is_swept_ = false;

  Mutex mutex_;
  std::set<std::filesystem::path> synced_folders_ GUARDED_BY(mutex_);
  std::string root_identity_ GUARDED_BY(mutex_);  // empty before the first write
};

}  // namespace tern
