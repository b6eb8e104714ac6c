// What `tern checkpoints` shows.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct ListedCheckpoint {
  int64_t number = 0;
  std::optional<int64_t> step;  // nothing: its record cannot be read
  int64_t unix_ms = 0;          // when it was written
  int64_t bytes = 0;            // of its blobs
  bool best = false;            // the best of all until now
  std::string kept_because;     // which rule of retention holds it
  std::string damage;           // empty: none was found
};

enum class Verify { no, yes };

// The checkpoints of a run, lowest number first, and the damaged records among them, which may be
// checkpoints. Verify::yes reads all blobs. Fails only if the store does; damage is told in the
// list. The run may be under way.
Result<std::vector<ListedCheckpoint>> list_run_checkpoints(ObjectStore& run, Verify verify);

// A table for people. `name` is what the user calls the run; the last line teaches branching.
std::string format_checkpoints(const std::vector<ListedCheckpoint>& list, const std::string& name,
                               Verify verify);
// An array of objects: number, step, ms, bytes, best, kept_because, damage; what is not known is
// null.
nlohmann::json checkpoints_json(const std::vector<ListedCheckpoint>& list);

bool any_is_damaged(const std::vector<ListedCheckpoint>& list);

}  // namespace tern
