// `tern eval` and `tern predict`, which look at the weights before they become tern-train.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "core/result.h"
#include "train/eval_flags.h"

namespace tern {

// A command that does something with weights.
struct WeightsCommand {
  std::string_view name;  // "tern eval"
  std::string_view help;
  std::string mode;  // what tern-train is started with to do it
};

// Parses the flags that `add_flags` tells of, of which `weights` is filled, and checks what can be
// checked without LibTorch: `check` of the flags, then that the run or the run file is there. Then
// it becomes tern-train, and returns only if it was asked for help or if that fails. Problems of a
// run file go to stderr.
Result<int> weights_command(const WeightsCommand& command, const Surroundings& surroundings,
                            const Arguments& arguments, const WeightsRequest& weights,
                            const std::function<void(CLI::App&)>& add_flags,
                            const std::function<Status()>& check);

}  // namespace tern
