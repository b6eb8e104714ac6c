#include "storage/disk_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <system_error>

#include "storage/proc_stat.h"

namespace tern {
namespace {

constexpr std::string_view kTempFolder = ".tmp";
// How often a publish starts again because its temporary file vanished. That happens only if a
// process elsewhere (another machine or container on the same files) begins to write just then and
// takes ours for a dead one's.
constexpr int kPublishAttemptsMax = 5;
// Two stores in one process count alike, so they may try the same temporary name.
constexpr int kTempAttemptsMax = 1000;

// Who made a temporary file. The start time tells a process from a later one with its pid.
struct Owner {
  std::string boot_id;
  std::string pid;
  std::string start_time;

  bool operator==(const Owner&) const = default;
};

Owner this_process() {
  const std::string pid = std::to_string(::getpid());
  const std::string boot_id = read_boot_id();
  const std::optional<ProcessStat> stat = read_process_stat(pid);
  return {boot_id.empty() ? "unknown" : boot_id, pid,
          stat ? std::to_string(stat->start) : "unknown"};
}

std::string temp_name(const Owner& owner, uint64_t number) {
  return fmt::format("{}.{}.{}.{}", owner.boot_id, owner.pid, owner.start_time, number);
}

// Nothing if the file was not named by temp_name(): then it is not ours to remove.
std::optional<Owner> owner_of(const std::string& name) {
  std::vector<std::string> parts;
  std::istringstream text(name);
  for (std::string part; std::getline(text, part, '.');) parts.push_back(part);
  const auto is_number = [](const std::string& part) {
    return !part.empty() &&
           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (parts.size() != 4 || !is_number(parts[1]) || !is_number(parts[3])) return std::nullopt;
  return Owner{parts[0], parts[1], parts[2]};
}

bool is_dead(const Owner& owner, const Owner& self) {
  // Without /proc nobody can tell the living from the dead.
  if (self.boot_id == "unknown" || self.start_time == "unknown") return false;
  if (owner.boot_id != self.boot_id) return true;
  const std::optional<ProcessStat> stat = read_process_stat(owner.pid);
  return !stat || std::to_string(stat->start) != owner.start_time;
}

bool is_in_temp_folder(std::string_view name) {
  return name.substr(0, name.find('/')) == kTempFolder;
}

Status check_name(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  if (!is_in_temp_folder(name)) return {};
  return fail(Code::invalid, fmt::format("object name '{}' is refused: '{}' is where the store "
                                         "keeps unfinished files; use another first part",
                                         name, kTempFolder));
}

}  // namespace

Result<std::unique_ptr<DiskStore>> DiskStore::open(const std::filesystem::path& root,
                                                   FileDoor& door) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(root, error).lexically_normal();
  if (root.empty() || error) {
    return fail(Code::invalid,
                fmt::format("'{}' is no folder for a store; name one", root.string()));
  }
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "runs/" is "runs"
  if (door.size_bytes(absolute)) {
    return fail(Code::failed_precondition,
                fmt::format("{} is a file, but a store is a folder; name its folder instead",
                            absolute.string()));
  }
  return std::unique_ptr<DiskStore>(new DiskStore(std::move(absolute), door));
}

DiskStore::DiskStore(std::filesystem::path root, FileDoor& door)
    : root_(std::move(root)), temps_(root_ / kTempFolder), door_(door) {}

Result<Bytes> DiskStore::get(const std::string& name) {
  RETURN_IF_ERROR(check_name(name));
  return door_.read(root_ / name);
}

Result<Bytes> DiskStore::get_range(const std::string& name, int64_t offset, int64_t length) {
  RETURN_IF_ERROR(check_name(name));
  return door_.read_range(root_ / name, offset, length);
}

Status DiskStore::put(const std::string& name, BytesView bytes) {
  return publish(name, bytes, Publish::replace);
}

Status DiskStore::create(const std::string& name, BytesView bytes) {
  return publish(name, bytes, Publish::create_only);
}

Result<ObjectInfo> DiskStore::stat(const std::string& name) {
  RETURN_IF_ERROR(check_name(name));
  ASSIGN_OR_RETURN(const int64_t size_bytes, door_.size_bytes(root_ / name));
  return ObjectInfo{name, size_bytes};
}

Result<std::vector<ObjectInfo>> DiskStore::list(const std::string& prefix) {
  // Only the folder that holds every match is read: for "a/b/c" that is "a/b".
  const size_t slash = prefix.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : prefix.substr(0, slash);
  std::vector<ObjectInfo> found;
  // A folder that no name can have holds no object; in particular "..".
  if (slash != std::string::npos && !check_name(folder)) return found;

  Result<std::vector<FileInfo>> files = door_.list(folder.empty() ? root_ : root_ / folder);
  if (!files && files.error().code == Code::not_found) return found;
  if (!files) return files.error();
  for (const FileInfo& file : *files) {
    std::string name = folder.empty() ? file.path : folder + "/" + file.path;
    // People may put files here whose names are no object names.
    if (name.starts_with(prefix) && check_name(name)) {
      found.push_back({std::move(name), file.size_bytes});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
  return found;
}

Status DiskStore::remove(const std::string& name) {
  RETURN_IF_ERROR(check_name(name));
  RETURN_IF_ERROR(check_root());
  const std::filesystem::path path = root_ / name;
  const Status removed = door_.remove(path);
  if (removed) return door_.sync_folder(path.parent_path());
  if (removed.error().code == Code::not_found) return {};
  return removed;
}

std::optional<std::filesystem::path> DiskStore::local_path(const std::string& name) const {
  if (!door_.is_on_this_machine() || !check_name(name)) return std::nullopt;
  return root_ / name;
}

Status DiskStore::publish(const std::string& name, BytesView bytes, Publish how) {
  RETURN_IF_ERROR(check_name(name));
  // Not by open(): who only looks must not touch what a process elsewhere is writing.
  if (!is_swept_.exchange(true)) sweep_temps();
  Status published;
  for (int attempt = 0; attempt < kPublishAttemptsMax; ++attempt) {
    RETURN_IF_ERROR(check_root());
    published = publish_once(root_ / name, bytes, how);
    if (published) remember_root();
    if (published || published.error().code != Code::not_found) return published;
  }
  return fail(Code::unavailable, fmt::format("{}; something keeps removing files from {}: stop it",
                                             published.error().message, temps_.string()));
}

Status DiskStore::check_root() {
  MutexLock lock(mutex_);
  if (root_identity_.empty()) return {};
  const Result<std::string> identity = door_.folder_identity(root_);
  if (identity && *identity == root_identity_) return {};
  if (identity) {
    return fail(Code::aborted, fmt::format("{} is another folder now than the one this process has "
                                           "written to; leave it to whoever made it, and go on "
                                           "where the old one was moved to",
                                           root_.string()));
  }
  if (identity.error().code != Code::not_found) return identity.error();
  return fail(Code::unavailable,
              fmt::format("{} is gone: it was moved, removed or unmounted while this process "
                          "writes to it; put it back, or stop and go on where it is now",
                          root_.string()));
}

// After the first write and not before it: a layered file system (of a container) may give the
// folder another number when it is first written to.
void DiskStore::remember_root() {
  MutexLock lock(mutex_);
  if (!root_identity_.empty()) return;
  // If it cannot be told, the next write asks again.
  if (Result<std::string> identity = door_.folder_identity(root_)) root_identity_ = *identity;
}

Status DiskStore::publish_once(const std::filesystem::path& target, BytesView bytes, Publish how) {
  RETURN_IF_ERROR(prepare_folder(target.parent_path()));
  ASSIGN_OR_RETURN(const std::filesystem::path temp, write_temp(bytes));
  const Status published =
      how == Publish::replace ? door_.rename(temp, target) : door_.link(temp, target);
  if (how == Publish::create_only || !published) {
    // A temporary file that stays costs only space, until it is swept.
    door_.remove(temp).permit_unchecked_error();
  }
  // Also when the name is taken: it may be our own, from a call whose sync failed, and whoever is
  // told that it exists must be able to rely on it.
  const bool is_there = published || published.error().code == Code::already_exists;
  if (is_there) RETURN_IF_ERROR(door_.sync_folder(target.parent_path()));
  return published;
}

Status DiskStore::prepare_folder(const std::filesystem::path& folder) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> made, door_.make_folders(folder));
  if (made.empty() && synced_folders_.contains(folder)) return {};

  // Not only what was made just now: a process that died may have made the others and not synced.
  for (auto at = folder; at != root_; at = at.parent_path()) {
    RETURN_IF_ERROR(door_.sync_folder(at.parent_path()));
  }
  const Status synced = door_.sync_folder(root_.parent_path());
  // A folder above ours which we may not read, such as /home, was not made by us.
  if (!synced && synced.error().code != Code::permission_denied) return synced;
  for (const std::filesystem::path& path : made) {
    RETURN_IF_ERROR(door_.sync_folder(path.parent_path()));
  }
  synced_folders_.insert(folder);
  return {};
}

Result<std::filesystem::path> DiskStore::write_temp(BytesView bytes) {
  const Result<std::vector<std::filesystem::path>> made = door_.make_folders(temps_);
  if (!made) return made.error();
  const Owner owner = this_process();  // not remembered: it changes in a fork()
  Status written;
  for (int attempt = 0; attempt < kTempAttemptsMax; ++attempt) {
    const std::filesystem::path path = temps_ / temp_name(owner, ++temps_made_);
    written = door_.write_new(path, bytes);
    if (written) return path;
    if (written.error().code == Code::already_exists) continue;
    door_.remove(path).permit_unchecked_error();
    return written.error();
  }
  return fail(Code::unavailable, fmt::format("{} is full of unfinished files of this process; "
                                             "remove them and try again",
                                             temps_.string()));
}

void DiskStore::sweep_temps() {
  const Result<std::vector<FileInfo>> files = door_.list(temps_);
  if (!files) return;
  const Owner self = this_process();
  for (const FileInfo& file : *files) {
    const std::optional<Owner> owner = owner_of(file.path);
    if (owner && is_dead(*owner, self)) door_.remove(temps_ / file.path).permit_unchecked_error();
  }
}

}  // namespace tern
