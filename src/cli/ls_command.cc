#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/run_list.h"
#include "core/clock.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern ls: the runs in a folder, a line each.

  tern ls            the runs in runs/
  tern ls DIR        the runs in another folder, or in s3://bucket/prefix,
                     gs://bucket/prefix or az://account/container/prefix
  tern ls --json     for programs: an array of objects with run, status,
                     problem, step, total_steps, top1, bytes, last_ms

A line tells how the run ended (done, preempted, stopped, failed) or that it is
running, how far it came, its last accuracy on the test data, what it takes on
disk and when it last wrote a record. A run that cannot be read is listed as
damaged, or as unreadable if it may not be, with the reason. Folders that hold
no run are passed over.

Read on: `tern report NAME` tells all about one run, `tern checkpoints NAME`
lists what it has saved, `tern rm NAME` removes it.
)";

constexpr char kRuns[] = "runs";

Result<std::vector<std::filesystem::path>> find_runs(const std::string& given) {
  const std::filesystem::path folder = given.empty() ? kRuns : given;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    if (error == std::errc::permission_denied) return file_error("list", folder, error.value());
    if (given.empty()) return std::vector<std::filesystem::path>();
    return fail(Code::not_found,
                fmt::format("there is no folder {}; give a folder that holds runs, or none for {}/",
                            given, kRuns));
  }
  // The folder of one run, which is what the other commands take.
  if (is_run_folder(folder)) {
    return std::vector<std::filesystem::path>{folder.has_filename() ? folder
                                                                    : folder.parent_path()};
  }
  std::vector<std::filesystem::path> runs;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, run_names(folder));
  for (const std::string& name : names) runs.push_back(folder / name);
  return runs;
}

}  // namespace

Result<int> ls_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool as_json = false;
  bool names = false;
  std::string folder;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--json", as_json);
  app.add_flag("--names", names);  // for completion: reads nothing of the runs
  app.add_option("DIR", folder);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern ls --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  StoreAddress place;
  if (!folder.empty()) {
    ASSIGN_OR_RETURN(place, parse_store_address(folder));
  }
  SystemClock clock;
  std::vector<ListedRun> runs;
  if (!place.is_folder()) {
    CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
    ASSIGN_OR_RETURN(runs, read_bucket_runs(door, place));
  } else {
    ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> found, find_runs(place.prefix));
    RealFileDoor door;
    for (const auto& run : found) {
      runs.push_back(names ? ListedRun{.name = run.filename().string()}
                           : read_listed_run(run, door));
    }
  }
  if (names) {
    for (const ListedRun& run : runs) fmt::print("{}\n", run.name);
    return kExitDone;
  }
  if (as_json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", run_list_json(runs).dump(2, ' ', false, replace));
  } else if (runs.empty() && !place.is_folder()) {
    fmt::print(
        "There are no runs in {0} itself. `tern store ls {0}` shows what is there, "
        "`tern train fashion-mnist --run {0}/NAME` begins one.\n",
        place.to_string());
  } else if (runs.empty()) {
    fmt::print("There are no runs in {}. `tern train fashion-mnist` begins one.\n",
               folder.empty() ? kRuns : place.prefix);
  } else {
    fmt::print("{}", format_run_list(runs, clock.unix_ms()));
  }
  return kExitDone;
}

}  // namespace tern
