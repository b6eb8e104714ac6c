// `tern data ...`: the commands about data sets.
#include "cli/command_table.h"
#include "cli/data_commands.h"
#include "cli/subcommand.h"

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
  return run_subcommand("data", kHelp, data_command_table(), surroundings, arguments);
}

}  // namespace tern
