// Copying objects between stores: what `tern store cp` and `tern run copy` do.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/object_bytes.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct CopyItem {
  ObjectInfo from;
  std::string to;
};

enum class Existing { refuse, replace };

// The stores outlive the copy.
struct CopySetup {
  ObjectStore* from = nullptr;
  ObjectStore* to = nullptr;
  MoveOptions move;
  Existing existing = Existing::refuse;
  std::stop_token stop;  // ends it between objects, and within one that is fetched
  OnBytes on_bytes;      // copied; from any thread
  // Instead of the copying below, for one object; from any thread.
  std::function<Status(const CopyItem& item)> copy_one;
};

// Copies every item, many at once: first those up to a part in size, then the larger ones in parts,
// as many together as `move` has room for parts; of several files each is written by few parts at a
// time. Memory is bounded by `move`, whatever the sizes. A copy is whole or not there. The first
// failure ends it: what is copied by then stays. `cancelled` once `stop` fires. Blocks.
Status copy_objects(const CopySetup& setup, const std::vector<CopyItem>& items);

// One of them. Into a bucket it is written by put() or create() from mapped memory; into a folder
// it is fetched by ranges into a file that gets its name at the end. Its size is checked;
// already_exists if it may not be replaced.
Status copy_object(const CopySetup& setup, const CopyItem& item);

}  // namespace tern
