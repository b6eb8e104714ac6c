#include "cli/subcommand.h"

#include <fmt/format.h>

#include <optional>

#include "core/options.h"
#include "train/exit_codes.h"

namespace tern {

Result<int> run_subcommand(std::string_view name, std::string_view help,
                           std::span<const Command> commands, const Surroundings& surroundings,
                           const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", help);
    return kExitDone;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.name == arguments[0]) {
      return command.run(surroundings, {arguments.begin() + 1, arguments.end()});
    }
    names.emplace_back(command.name);
  }
  const std::optional<std::string> near = nearest_name(arguments[0], names);
  return fail(
      Code::invalid,
      fmt::format("unknown command {} {}; {}see `tern {} --help`", name, arguments[0],
                  near ? fmt::format("did you mean `tern {} {}`? ", name, *near) : "", name));
}

}  // namespace tern
