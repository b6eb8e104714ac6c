// What --from DIR@STEP names. No LibTorch: shared by `tern` and `tern-train`.
#pragma once

#include <cstdint>
#include <string>

#include "cloud/open_store.h"
#include "core/result.h"

namespace tern {

struct BranchSource {
  enum class Which { newest, best, step };

  StoreAddress run;  // where the other run is
  Which which = Which::newest;
  int64_t step = 0;  // for Which::step

  std::string folder() const;     // the same wherever one stands and however `run` is spelt
  std::string to_string() const;  // "runs/demo@1200", "runs/demo@best", "runs/demo"
};

// DIR, DIR@STEP or DIR@best, where DIR follows parse_run_place's rules. What follows the last '@'
// is the step, unless it has a '/': then all of it is a folder. `invalid` if it is neither a number
// nor "best". Opens nothing.
Result<BranchSource> parse_from(const std::string& text);

// `invalid` if the new run's place is the other run's: it would resume that one, or move it away.
Status check_new_folder(const BranchSource& source, const StoreAddress& run);

}  // namespace tern
