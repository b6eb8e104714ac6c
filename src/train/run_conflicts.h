// Options that must fit together: what no option's own rules can say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/run_config.h"

namespace tern {

// What is wrong with several options together.
struct Conflict {
  std::vector<std::string_view> keys;  // literals
  std::string message;
};

std::vector<Conflict> find_conflicts(const RunConfig& config);

}  // namespace tern
