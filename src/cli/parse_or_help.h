// What commands begin with.
#pragma once

#include <string_view>

#include "cli/command.h"
#include "core/result.h"

namespace CLI {
class App;
}

namespace tern {

// Parses what follows the command's name, such as "tern store ls", into what `app` was told of.
// True if --help was among it: `help` is printed then, and nothing is left to do.
Result<bool> parse_or_help(CLI::App& app, const Arguments& arguments, std::string_view name,
                           std::string_view help);

}  // namespace tern
