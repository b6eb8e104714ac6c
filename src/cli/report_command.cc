#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "report/run_report.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern report: how a run ended and why, its accuracy, speed and interruptions.

  tern report DIR           for people
  tern report DIR --json    for programs; the fields are in docs/format_report.md

DIR is a run folder, or the name of one in runs/: `tern report demo` is
`tern report runs/demo`. A run that is still training can be looked at as well.
)";

}  // namespace

Result<int> report_command(const Surroundings&, const Arguments& arguments) {
  bool help = false;
  bool json = false;
  std::string name;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--json", json);
  app.add_option("DIR", name);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern report --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (name.empty()) return fail(Code::invalid, "which run? `ls runs` shows those that are here");

  ASSIGN_OR_RETURN(const std::filesystem::path folder, parse_run_folder(name));
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return fail(Code::not_found, fmt::format("no run folder {}; `ls runs` shows the runs that are "
                                             "here, `tern train FILE --run {}` begins one",
                                             folder.string(), name));
  }
  RealFileDoor door;
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskStore> store, DiskStore::open(folder, door));
  ASSIGN_OR_RETURN(const RunReport report, read_report(*store, folder.string()));
  if (json) {
    // A byte that is no UTF-8 (in a path, say) must not cost the whole report.
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", report_json(report).dump(2, ' ', false, replace));
  } else {
    fmt::print("{}", format_report(report));
  }
  return kExitDone;
}

}  // namespace tern
