// What is in a bucket, also under names that are none of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// Told after each page how many more there were on it. May be empty.
using OnListed = std::function<void(int64_t more)>;

// What a store of a cloud is beside a Bucket: others put objects there whose names
// check_object_name() refuses ("folder/" of a web console, "a//b"), which list() leaves out, as
// nothing could be done with them. Who removes or copies everything says what it left.
class WholeList {
 public:
  // As ObjectStore::list(), with such names too.
  virtual Result<std::vector<ObjectInfo>> list_whole(const std::string& prefix,
                                                     const OnListed& on_listed) = 0;

 protected:
  ~WholeList() = default;
};

// list_whole() of a cloud's store, list() of others, which have no such names.
Result<std::vector<ObjectInfo>> list_whole(ObjectStore& store, const std::string& prefix,
                                           const OnListed& on_listed = {});

// What a list() makes of it.
Result<std::vector<ObjectInfo>> keep_our_names(Result<std::vector<ObjectInfo>> whole);

}  // namespace tern
