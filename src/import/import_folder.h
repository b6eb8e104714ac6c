// The folder that an import fills: who works on it, what was begun there, what is finished of it.
//
//   import.lock      while a process works on it
//   import.json      what is being imported; from before the first shard to after the index
//   shards/00000.shard ...
//   dataset.tern     the index, last
//   .download/, source/   what was fetched, if the source is an address
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/file_door.h"

namespace tern {

// The member of an import's plan that says which version its source's files had.
inline constexpr char kPlanFiles[] = "files";

// A file that at most one process holds (flock), gone again when it is given up. The system lets go
// of it when the process dies.
class FolderLock {
 public:
  // `failed_precondition` if another process holds it. Does not wait.
  static Result<std::unique_ptr<FolderLock>> take(const std::filesystem::path& file);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(std::filesystem::path file, FileDescriptor fd);

  const std::filesystem::path file_;
  const FileDescriptor fd_;
};

// Owned by the import, one thread. Every call may block on the disk; errors name the file. When it
// goes and nothing was finished, it leaves no trace.
class ImportFolder {
 public:
  using Path = std::filesystem::path;

  // Takes the lock. `plan` says what is to be imported, and how: a folder where the same was begun
  // is gone on with. `failed_precondition`, with what to do: another process is at work, or the
  // folder holds a finished data set, finished shards of another plan or of files that were changed
  // since, or other files.
  static Result<std::unique_ptr<ImportFolder>> open(const Path& folder, const nlohmann::json& plan);
  ~ImportFolder();

  // "shards/00012.shard"
  static std::string shard_name(int64_t shard);
  Path path(const std::string& name) const { return folder_ / name; }

  // Removes that shard, those after it, and what is left of unfinished ones.
  Status remove_shards_from(int64_t shard);
  Status make_shards_folder();
  // Writes the index and, once that is durable, forgets the plan: the data set is finished.
  Status publish_index(BytesView index);
  Status forget_plan();

 private:
  ImportFolder(Path folder, bool is_new);
  Status check_content() const;
  // Goes on with the plan of an earlier import if it is the same, or writes this one down.
  Status adopt(const nlohmann::json& plan);
  Status write_durably(const std::string& name, BytesView bytes);
  bool has_shards() const;

  const Path folder_;
  const bool is_new_;  // made by us
  RealFileDoor door_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace tern
