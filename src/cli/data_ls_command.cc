#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cli/parse_or_help.h"
#include "core/clock.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data ls: what a data set holds.

  tern data ls DST          samples, classes, sizes, mean and standard
                            deviation, and the samples that were left out
                            (on a terminal, the beginning of long lists)
  tern data ls DST --json   for programs: id, samples (train and test), classes,
                            bytes, bad, and more

DST is a folder that `tern data import` made, or a copy of one in a bucket:
s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix.
)";

}  // namespace

Result<int> data_ls_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool as_json = false;
  std::string place;
  CLI::App app;
  app.add_flag("--json", as_json);
  app.add_option("DST", place);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern data ls", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const ImportedData data, open_data_set(place, door));
  const DatasetIndex& index = *data.index;
  const DataSummary summary = summarise(index);
  if (as_json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", summary_json(index, summary).dump(2, ' ', false, replace));
  } else {
    const auto width = isatty(STDOUT_FILENO) != 0 ? SummaryWidth::screen : SummaryWidth::all;
    fmt::print("{}", format_summary(index, summary, place, width));
  }
  return kExitDone;
}

}  // namespace tern
