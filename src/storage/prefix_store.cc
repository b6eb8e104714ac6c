#include "storage/prefix_store.h"

#include <utility>

namespace tern {
namespace {

std::string with_slash(std::string prefix) {
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  return prefix;
}

}  // namespace

PrefixStore::PrefixStore(ObjectStore& inner, std::string prefix)
    : inner_(inner), prefix_(with_slash(std::move(prefix))) {}

PrefixStore::PrefixStore(std::unique_ptr<ObjectStore> inner, std::string prefix)
    : owned_(std::move(inner)), inner_(*owned_), prefix_(with_slash(std::move(prefix))) {}

// Each verb checks the name before it is joined: "../other" must not leave the prefix, and the
// empty name must not become the prefix itself.

Result<Bytes> PrefixStore::get(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  return inner_.get(prefix_ + name);
}

Result<Bytes> PrefixStore::get_range(const std::string& name, int64_t offset, int64_t length) {
  RETURN_IF_ERROR(check_object_name(name));
  return inner_.get_range(prefix_ + name, offset, length);
}

Result<int64_t> PrefixStore::get_range_to(const std::string& name, int64_t offset, int64_t length,
                                          const RangeSink& sink) {
  RETURN_IF_ERROR(check_object_name(name));
  return inner_.get_range_to(prefix_ + name, offset, length, sink);
}

std::vector<Result<Bytes>> PrefixStore::get_ranges(std::span<const ObjectRange> ranges) {
  std::vector<ObjectRange> joined;
  std::vector<Result<Bytes>> all;
  all.reserve(ranges.size());
  for (const ObjectRange& range : ranges) {
    const Status checked = check_object_name(range.name);
    all.push_back(checked ? Result<Bytes>(Bytes()) : checked.error());
    if (checked) joined.push_back({prefix_ + range.name, range.offset, range.length});
  }
  std::vector<Result<Bytes>> got = inner_.get_ranges(joined);
  auto next = got.begin();
  for (Result<Bytes>& each : all) {
    if (each) each = std::move(*next++);
  }
  return all;
}

Status PrefixStore::put(const std::string& name, BytesView bytes) {
  RETURN_IF_ERROR(check_object_name(name));
  return inner_.put(prefix_ + name, bytes);
}

Status PrefixStore::create(const std::string& name, BytesView bytes) {
  RETURN_IF_ERROR(check_object_name(name));
  return inner_.create(prefix_ + name, bytes);
}

Result<ObjectInfo> PrefixStore::stat(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  ASSIGN_OR_RETURN(const ObjectInfo info, inner_.stat(prefix_ + name));
  return ObjectInfo{name, info.size_bytes};
}

Result<std::vector<ObjectInfo>> PrefixStore::list(const std::string& prefix) {
  ASSIGN_OR_RETURN(std::vector<ObjectInfo> found, inner_.list(prefix_ + prefix));
  for (ObjectInfo& info : found) info.name.erase(0, prefix_.size());
  return found;
}

Status PrefixStore::remove(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  return inner_.remove(prefix_ + name);
}

Status PrefixStore::remove_all(std::span<const std::string> names) {
  std::vector<std::string> joined;
  Status first;
  for (const std::string& name : names) {
    const Status checked = check_object_name(name);
    if (checked) joined.push_back(prefix_ + name);
    if (first && !checked) first = checked;
  }
  const Status removed = inner_.remove_all(joined);
  return first ? removed : first;
}

std::optional<std::filesystem::path> PrefixStore::local_path(const std::string& name) const {
  if (!check_object_name(name)) return std::nullopt;
  return inner_.local_path(prefix_ + name);
}

}  // namespace tern
