#include "cloud/whole_list.h"

namespace tern {

Result<std::vector<ObjectInfo>> list_whole(ObjectStore& store, const std::string& prefix,
                                           const OnListed& on_listed) {
  auto* const cloud = dynamic_cast<WholeList*>(&store);
  return cloud != nullptr ? cloud->list_whole(prefix, on_listed) : store.list(prefix);
}

Result<std::vector<ObjectInfo>> keep_our_names(Result<std::vector<ObjectInfo>> whole) {
  if (!whole) return whole;
  std::erase_if(*whole, [](const ObjectInfo& info) { return !check_object_name(info.name); });
  return whole;
}

}  // namespace tern
