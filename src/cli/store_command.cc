// `tern store ...` and `tern run ...`: the commands about stores and what is moved between them.
#include "cli/command_table.h"
#include "cli/store_commands.h"
#include "cli/subcommand.h"

namespace tern {
namespace {

constexpr std::string_view kStoreHelp =
    R"(tern store: objects in buckets, and files.

  tern store ls URI         what is there, with sizes
  tern store cp FROM TO     copy files, folders and objects, in any direction
  tern store cat URI        an object, to stdout
  tern store rm URI         remove objects
  tern store mb URI         make a bucket
  tern store bench URI      how fast it is

URI is s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix,
file:///path or a plain path. Credentials are found as each cloud's own tools
find them; `tern doctor URI` shows which, and what they may do.
A run is moved by `tern run copy`, which knows its parts.
)";

constexpr std::string_view kRunHelp =
    R"(tern run: runs as a whole.

  tern run copy FROM TO     copy a run with all its checkpoints, verified

Read on: tern run copy --help
)";

}  // namespace

Result<int> store_command(const Surroundings& surroundings, const Arguments& arguments) {
  return run_subcommand("store", kStoreHelp, store_command_table(), surroundings, arguments);
}

Result<int> run_command(const Surroundings& surroundings, const Arguments& arguments) {
  return run_subcommand("run", kRunHelp, run_command_table(), surroundings, arguments);
}

}  // namespace tern
