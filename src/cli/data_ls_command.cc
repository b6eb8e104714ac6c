#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cloud/open_store.h"
#include "core/clock.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

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

// Of the samples themselves nothing is read.
Result<std::unique_ptr<DatasetIndex>> open_anywhere(const Surroundings& surroundings,
                                                    const std::string& place) {
  if (!is_cloud_address(place)) return open_data_set(place);
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(place));
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, door.open(address));
  ASSIGN_OR_RETURN(Bytes bytes, store->get(kIndexFile).at("the data set's index"));
  return DatasetIndex::from_bytes(std::move(bytes), fmt::format("{}/{}", place, kIndexFile));
}

}  // namespace

Result<int> data_ls_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool as_json = false;
  std::string folder;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--json", as_json);
  app.add_option("DST", folder);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern data ls --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DatasetIndex> index, open_anywhere(surroundings, folder));
  const DataSummary summary = summarise(*index);
  if (as_json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", summary_json(*index, summary).dump(2, ' ', false, replace));
  } else {
    const auto width = isatty(STDOUT_FILENO) != 0 ? SummaryWidth::screen : SummaryWidth::all;
    fmt::print("{}", format_summary(*index, summary, folder, width));
  }
  return kExitDone;
}

}  // namespace tern
