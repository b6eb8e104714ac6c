// The flags of `tern train`, defined once for `tern`, which checks them, and `tern-train`, which is
// started with the same ones.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "train/run_config.h"

namespace CLI {
class App;
}

namespace tern {

// FILE and every flag; the values land in `request`, which must outlive `app`. FILE is not
// required here, so that `tern train` without arguments can teach.
void add_train_flags(CLI::App& app, TrainRequest& request);

// Parses with CLI11, whose exceptions end here: `invalid`, with the nearest flag for a mistyped one
// and `help` (such as "tern train --help") as what to try next.
Status parse_flags(CLI::App& app, const std::vector<std::string>& arguments, std::string_view help);

// All of it, as tern-train does: `arguments` is what followed `tern train`. `invalid` without FILE.
Result<TrainRequest> parse_train_flags(const std::vector<std::string>& arguments);

}  // namespace tern
