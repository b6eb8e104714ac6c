// A program's checkpoint folder on this machine, and its copies in the run's store (manifest.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "program/folder_scan.h"
#include "program/manifest.h"
#include "storage/object_store.h"

namespace tern {

// Manifests that stay in the store: the newest, and two to go back to if it is damaged.
inline constexpr size_t kManifestsKept = 3;

// Owned by rank 0, or by the first rank of a machine. Not thread-safe; every call may block on the
// store.
class CheckpointFolder {
 public:
  struct Setup {
    ObjectStore* run = nullptr;  // outlives this
    std::filesystem::path folder;
    std::filesystem::path work;  // for what is ours: the state and a file that is being copied
    std::string writer;          // a random name
    Clock* clock = nullptr;
    // A sentence about a copy that is damaged and passed over.
    std::function<void(const std::string& sentence)> warn;
  };
  explicit CheckpointFolder(Setup setup) : setup_(std::move(setup)) {}

  // Makes the folder what was saved last, unless it is that, or has gone on from it on this
  // machine. Returns the manifest's number; 0: nothing was ever saved. A manifest whose files are
  // missing or damaged is passed over for the one before.
  Result<int64_t> restore_newest();
  // Makes the folder what this manifest says: no more and no less. 0 empties it.
  Status restore(int64_t number);

  // The folder is right as it is: another process of this machine has saved from it until now.
  Status adopt();

  enum class When {
    settled,  // only what has not changed since the last call, and is not open for writing
    now,      // all that is not open for writing: nobody writes any more
  };
  // Copies what is new and commits a manifest of all that is in the folder. Nothing if nothing is
  // new, or if that is still being written or changed while it was copied. `aborted` if another
  // process saves for this run.
  Result<std::optional<Manifest>> save(When when);

  // A program of this machine has ended in the middle of what it did: files that may be half are
  // set aside (torn_files.h), and their paths returned. Safe from any thread.
  std::vector<std::string> set_torn_aside(int64_t ended_unix_ms) const;
  // Fetches those again that were saved once; what is set aside counts for save() as not removed
  // until then. Asks the store only if there are any. Returns whether there were.
  Result<bool> restore_torn();

  // Commits what the folder descends from once more, so that whoever saved for this run until now
  // is told so at its next commit. Nothing if that is this process. `aborted` if another has
  // committed meanwhile, which restore_newest() then finds. REQUIRES: restore_newest() before.
  Status fence();

  // Removes files in the store that no manifest lists: what a process put that was killed before
  // its commit. REQUIRES: restore_newest() before, and that no other process saves for this run.
  Status sweep();

  int64_t number() const { return number_; }

 private:
  struct Known {
    FileStamp stamp;
    SavedFile file;
  };

  Status look_at_store();
  FolderScan kept_stamps() const;
  void read_state();
  void write_state();
  Status fetch(const Manifest& manifest);
  Status fetch_file(const SavedFile& file);
  void keep_only(const Manifest& manifest);
  bool has_rested(const std::string& path, const FileStamp& stamp) const;
  std::optional<FolderScan> find_settled(const FolderScan& scan, When when);
  Result<std::optional<SavedFile>> put_file(const std::string& path, const FileStamp& stamp);
  Result<std::optional<SavedFile>> copy_aside(const std::string& path, const FileStamp& stamp);
  Status commit(Manifest& manifest);
  void note(const Manifest& manifest);
  Status prune();

  const Setup setup_;
  std::map<std::string, Known> known_;  // what the folder and number_ have in common
  FolderScan seen_;                     // at the last save()
  std::optional<Nanoseconds> unsettled_since_;
  int64_t number_ = 0;                     // that the folder descends from
  int64_t last_ = 0;                       // highest in the store, whatever it holds
  std::map<int64_t, Manifest> manifests_;  // in the store
};

}  // namespace tern
