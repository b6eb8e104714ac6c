#include "storage/sim_file_door.h"

#include <algorithm>
#include <cerrno>

#include "storage/object_store.h"

namespace tern {
namespace {

std::string key_of(const std::filesystem::path& path) { return path.lexically_normal().string(); }

std::string parent_of(const std::string& key) {
  return std::filesystem::path(key).parent_path().string();
}

}  // namespace

Status SimFileDoor::write_new(const Path& path, BytesView bytes) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  if (!is_folder(path.parent_path())) return file_error("write", path, ENOENT);
  const auto node = std::make_shared<Node>();
  if (!names_.try_emplace(key_of(path), node).second) return file_error("write", path, EEXIST);
  RETURN_IF_ERROR(step());
  node->bytes = bytes;
  RETURN_IF_ERROR(step());
  node->synced_bytes = bytes;
  return {};
}

Status SimFileDoor::link(const Path& from, const Path& to) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, find_file(from));
  if (!is_folder(to.parent_path())) return file_error("link", to, ENOENT);
  if (!names_.try_emplace(key_of(to), node).second) return file_error("link", to, EEXIST);
  return {};
}

Status SimFileDoor::rename(const Path& from, const Path& to) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, find_file(from));
  if (!is_folder(to.parent_path())) return file_error("rename to", to, ENOENT);
  if (is_folder(to)) return file_error("rename to", to, EISDIR);
  names_.erase(key_of(from));
  names_.insert_or_assign(key_of(to), node);
  return {};
}

Status SimFileDoor::sync_folder(const Path& folder) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  if (!is_folder(folder)) return file_error("sync folder", folder, ENOENT);
  const std::string parent = key_of(folder);
  std::erase_if(synced_names_, [&](const auto& item) { return parent_of(item.first) == parent; });
  for (const auto& [name, node] : names_) {
    if (parent_of(name) == parent) synced_names_.emplace(name, node);
  }
  return {};
}

Result<std::vector<FileDoor::Path>> SimFileDoor::make_folders(const Path& folder) {
  MutexLock lock(mutex_);
  std::vector<Path> missing;
  for (Path at = key_of(folder); !is_folder(at); at = at.parent_path()) missing.push_back(at);
  std::reverse(missing.begin(), missing.end());
  if (missing.empty()) RETURN_IF_ERROR(step());
  for (const Path& path : missing) {
    RETURN_IF_ERROR(step());
    const auto node = std::make_shared<Node>(Node{.is_folder = true});
    if (!names_.try_emplace(path.string(), node).second) {
      return file_error("make folder", path, ENOTDIR);
    }
  }
  return missing;
}

Status SimFileDoor::remove(const Path& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  RETURN_IF_ERROR(find_file(path));
  names_.erase(key_of(path));
  return {};
}

Result<Bytes> SimFileDoor::read(const Path& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, find_file(path));
  return node->bytes;
}

Result<Bytes> SimFileDoor::read_range(const Path& path, int64_t offset, int64_t length) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, find_file(path));
  RETURN_IF_ERROR(
      check_object_range(path.string(), offset, length, static_cast<int64_t>(node->bytes.size())));
  return node->bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
}

Result<int64_t> SimFileDoor::size_bytes(const Path& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, find_file(path));
  return static_cast<int64_t>(node->bytes.size());
}

Result<std::string> SimFileDoor::folder_identity(const Path& folder) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  if (!is_folder(folder)) return file_error("look at", folder, ENOENT);
  return key_of(folder);  // folders are neither moved nor removed here
}

Result<std::vector<FileInfo>> SimFileDoor::list(const Path& folder) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(step());
  if (!is_folder(folder)) return file_error("list", folder, ENOENT);
  const std::string root = key_of(folder) + "/";
  std::vector<FileInfo> files;
  for (const auto& [name, node] : names_) {
    if (node->is_folder || !name.starts_with(root)) continue;
    files.push_back({name.substr(root.size()), static_cast<int64_t>(node->bytes.size())});
  }
  return files;
}

void SimFileDoor::crash_at(int64_t operation) {
  MutexLock lock(mutex_);
  crash_at_ = operation;
}

void SimFileDoor::crash(Unsynced unsynced) {
  MutexLock lock(mutex_);
  if (unsynced == Unsynced::lost) names_ = synced_names_;
  // A folder that is gone takes along what was in it. Parents sort before their children.
  for (auto it = names_.begin(); it != names_.end();) {
    it = is_folder(parent_of(it->first)) ? std::next(it) : names_.erase(it);
  }
  for (const auto& [name, node] : names_) {
    if (node->bytes == node->synced_bytes) continue;
    node->bytes = unsynced == Unsynced::lost ? node->synced_bytes
                                             : node->bytes.substr(0, node->bytes.size() / 2);
    node->synced_bytes = node->bytes;
  }
  synced_names_ = names_;
  crash_at_ = 0;
}

int64_t SimFileDoor::operations() {
  MutexLock lock(mutex_);
  return operations_;
}

Status SimFileDoor::step() {
  ++operations_;
  if (crash_at_ == 0 || operations_ < crash_at_) return {};
  return fail(Code::unavailable, "the simulated machine is gone; call crash() to start it again");
}

Result<std::shared_ptr<SimFileDoor::Node>> SimFileDoor::find_file(const Path& path) {
  const auto found = names_.find(key_of(path));
  if (found == names_.end() || found->second->is_folder) return file_error("find", path, ENOENT);
  return found->second;
}

bool SimFileDoor::is_folder(const Path& path) {
  const std::string key = key_of(path);
  if (key == "/") return true;
  const auto found = names_.find(key);
  return found != names_.end() && found->second->is_folder;
}

}  // namespace tern
