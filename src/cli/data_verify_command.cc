#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cli/parse_or_help.h"
#include "core/machine.h"
#include "core/progress.h"
#include "import/verify.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data verify: read every byte of a data set and name what is damaged.

  tern data verify DST            checks shards, or files indexed in place,
                                  against their checksums
  tern data verify DST --decode   also decodes every sample: finds those that
                                  were damaged before they were imported
  --threads N                     not given: all cores; for a bucket at least 8,
                                  which wait for it most of the time

DST is a folder that `tern data import` made, or a copy of one in a bucket:
s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix.
Exits with 4 if anything is damaged. What to do then: import it again, or train
with --set data.on_bad_sample=skip.
)";

// Requests at once that keep a bucket busy; a thread's memory is a few megabytes.
constexpr int64_t kBucketThreads = 8;

}  // namespace

Result<int> data_verify_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string place;
  VerifyOptions options;
  CLI::App app;
  app.add_flag("--decode", options.decode);
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_option("DST", place);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern data verify", kHelp));
  if (is_help) return kExitDone;
  if (app.count("--threads") == 0) {
    options.threads = usable_cores();
    if (is_cloud_address(place)) options.threads = std::max(options.threads, kBucketThreads);
  }
  SystemClock clock;
  // A bucket that is away for a minute must not end the reading of a terabyte.
  CloudDoor door(surroundings.cloud, clock);
  ASSIGN_OR_RETURN(const ImportedData data, open_data_set(place, door));
  Log log(clock, Level::info);
  // Nothing is written, so Ctrl-C may simply end it.
  ASSIGN_OR_RETURN(const VerifyResult result, verify_data_set(data, options, log, clock, {}));
  for (const std::string& damage : result.damages) fmt::print("damaged: {}\n", damage);
  if (result.damaged > static_cast<int64_t>(result.damages.size())) {
    fmt::print("and {} more\n", result.damaged - static_cast<int64_t>(result.damages.size()));
  }
  fmt::print("{}: {} samples, {} read, {} damaged\n", place, format_count(result.samples),
             format_bytes(result.bytes),
             result.damaged == 0 ? "none" : format_count(result.damaged));
  return result.damaged == 0 ? kExitDone : kExitCorrupt;
}

}  // namespace tern
