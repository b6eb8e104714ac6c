// `tern data ...`: the commands about data sets.
#include <fmt/format.h>

#include "cli/command_table.h"
#include "cli/data_commands.h"
#include "core/options.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data: data sets, from what you have to what a run reads.

  tern data import SRC DST   index SRC where it lies, or pack it (--pack)
  tern data ls DST           what a data set holds: samples, classes, sizes, id
  tern data verify DST       read every byte and name what is damaged
  tern data show DST N       sample N as a PNG; --grid 8x8 for a contact sheet
  tern data bench DST        samples per second, by stage and end to end

SRC is an archive, a folder or an https:// address: ImageNet as distributed,
Tiny-ImageNet, a folder per class, CIFAR-10 and CIFAR-100, IDX, WebDataset.
A run takes the result by --set data.path=DST.
Read on: tern data import --help
)";

}  // namespace

Result<int> data_command(const Surroundings& surroundings, const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  std::vector<std::string> names;
  for (const Command& command : data_command_table()) {
    if (command.name == arguments[0]) {
      return command.run(surroundings, {arguments.begin() + 1, arguments.end()});
    }
    names.emplace_back(command.name);
  }
  const std::optional<std::string> near = nearest_name(arguments[0], names);
  return fail(Code::invalid,
              fmt::format("unknown command data {}; {}see `tern data --help`", arguments[0],
                          near ? fmt::format("did you mean `tern data {}`? ", *near) : ""));
}

}  // namespace tern
