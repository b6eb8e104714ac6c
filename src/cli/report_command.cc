#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "report/price.h"
#include "report/run_report.h"
#include "train/exit_codes.h"
#include "train/run_place.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern report: how a run ended and why, its accuracy and speed, where the time
went, what bounds it, and what it cost.

  tern report DIR                    for people
  tern report DIR --json             for programs: docs/format_report.md
  tern report DIR --price 0.526/h    what it costs at so many dollars an hour,
                                     instead of at the prices in its records

DIR is a run folder, or the name of one in runs/: `tern report demo` is
`tern report runs/demo`; or s3://bucket/prefix, gs://bucket/prefix,
az://account/container/prefix. A run that is still training can be looked at as
well.
)";

}  // namespace

Result<int> report_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool json = false;
  std::string price;
  std::string name;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--json", json);
  app.add_option("--price", price);
  app.add_option("DIR", name);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern report --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (name.empty()) return fail(Code::invalid, "which run? `tern ls` shows those that are here");

  ReportOptions options;
  // Given but empty (a variable that is not set) is a mistake too.
  if (app.count("--price") > 0) {
    ASSIGN_OR_RETURN(options.price_microusd_per_hour, parse_price(price));
  }

  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(name));
  std::error_code error;
  if (place.is_folder() && !std::filesystem::is_directory(place.prefix, error)) {
    return fail(Code::not_found, fmt::format("no run folder {}; `tern ls` shows the runs that are "
                                             "here, `tern train FILE --run {}` begins one",
                                             place.prefix, name));
  }
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, open_run(door, place));
  ASSIGN_OR_RETURN(const RunReport report, read_report(*store, place.to_string(), options));
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
