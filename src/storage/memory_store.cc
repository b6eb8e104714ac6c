#include "storage/memory_store.h"

namespace tern {
namespace {

Error absent(const std::string& name) {
  return fail(Code::not_found, "no object '" + name + "' in memory; list what is there");
}

}  // namespace

Result<Bytes> MemoryStore::get(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  MutexLock lock(mutex_);
  const auto found = objects_.find(name);
  if (found == objects_.end()) return absent(name);
  return found->second;
}

Result<Bytes> MemoryStore::get_range(const std::string& name, int64_t offset, int64_t length) {
  RETURN_IF_ERROR(check_object_name(name));
  MutexLock lock(mutex_);
  const auto found = objects_.find(name);
  if (found == objects_.end()) return absent(name);
  const Bytes& bytes = found->second;
  RETURN_IF_ERROR(check_object_range(name, offset, length, static_cast<int64_t>(bytes.size())));
  return bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
}

Status MemoryStore::put(const std::string& name, BytesView bytes) {
  RETURN_IF_ERROR(check_object_name(name));
  MutexLock lock(mutex_);
  objects_.insert_or_assign(name, Bytes(bytes));
  return {};
}

Status MemoryStore::create(const std::string& name, BytesView bytes) {
  RETURN_IF_ERROR(check_object_name(name));
  MutexLock lock(mutex_);
  if (!objects_.try_emplace(name, bytes).second) {
    return fail(Code::already_exists, "object '" + name + "' exists already; read it instead");
  }
  return {};
}

Result<ObjectInfo> MemoryStore::stat(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  MutexLock lock(mutex_);
  const auto found = objects_.find(name);
  if (found == objects_.end()) return absent(name);
  return ObjectInfo{name, static_cast<int64_t>(found->second.size())};
}

Result<std::vector<ObjectInfo>> MemoryStore::list(const std::string& prefix) {
  MutexLock lock(mutex_);
  std::vector<ObjectInfo> found;
  for (auto it = objects_.lower_bound(prefix); it != objects_.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    found.push_back({it->first, static_cast<int64_t>(it->second.size())});
  }
  return found;
}

Status MemoryStore::remove(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  MutexLock lock(mutex_);
  objects_.erase(name);
  return {};
}

std::optional<std::filesystem::path> MemoryStore::local_path(const std::string& /*name*/) const {
  return std::nullopt;
}

}  // namespace tern
