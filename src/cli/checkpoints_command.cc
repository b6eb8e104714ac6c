#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checkpoint_list.h"
#include "cli/command.h"
#include "cli/run_list.h"
#include "core/stdio.h"
#include "train/exit_codes.h"
#include "train/run_place.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern checkpoints: what a run has saved.

  tern checkpoints DIR            number, step, when, size and why it is kept
  tern checkpoints DIR --verify   reads every byte and checks it; exits with 4
                                  if anything is damaged
  tern checkpoints DIR --json     for programs: an array of objects with
                                  number, step, ms (unix time), bytes, best,
                                  kept_because and damage (null: none found)

DIR is a run's name in runs/, the folder of a run, or its address
(s3://bucket/prefix and the like); it may be training.
A run keeps its newest checkpoints (checkpoint.keep, 3 by default) and its best.
Damaged ones are named; resuming uses the newest that is whole.

A checkpoint can be the beginning of another run, with other options:
  tern train FILE --from DIR@STEP --run NEW
)";

}  // namespace

Result<int> checkpoints_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool as_json = false;
  bool verifies = false;
  std::string name;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--json", as_json);
  app.add_flag("--verify", verifies);
  app.add_option("DIR", name);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern checkpoints --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (name.empty()) {
    return fail(Code::invalid, "of which run? `tern ls` lists those that are here");
  }
  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(name));
  if (place.is_folder() && !is_run_folder(place.prefix)) {
    return fail(Code::not_found, fmt::format("there is no run in {}; `tern ls` lists the runs that "
                                             "are here",
                                             place.prefix));
  }
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, open_run(door, place));
  const Verify verify = verifies ? Verify::yes : Verify::no;
  ASSIGN_OR_RETURN(const std::vector<ListedCheckpoint> list, list_run_checkpoints(*store, verify));
  if (as_json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", checkpoints_json(list).dump(2, ' ', false, replace));
  } else {
    fmt::print("{}", format_checkpoints(list, name, verify));
  }
  if (!verifies || !any_is_damaged(list)) return kExitDone;
  write_stderr(
      "tern: some are damaged; the run resumes from the newest that is whole, and damage that "
      "comes back is the disk's\n");
  return kExitCorrupt;
}

}  // namespace tern
