#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "core/machine.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "import/verify.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data verify: read every byte of a data set and name what is damaged.

  tern data verify DST            checks shards, or files indexed in place,
                                  against their checksums
  tern data verify DST --decode   also decodes every sample: finds those that
                                  were damaged before they were imported
  --threads N                     not given: all cores

Exits with 4 if anything is damaged. What to do then: import it again, or train
with --set data.on_bad_sample=skip.
)";

}  // namespace

Result<int> data_verify_command(const Surroundings&, const Arguments& arguments) {
  bool help = false;
  std::string folder;
  VerifyOptions options{.threads = usable_cores()};
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--decode", options.decode);
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_option("DST", folder);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern data verify --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DatasetIndex> index, open_data_set(folder));
  SystemClock clock;
  Log log(clock, Level::info);
  // Nothing is written, so Ctrl-C may simply end it.
  ASSIGN_OR_RETURN(const VerifyResult result,
                   verify_data_set(folder, *index, options, log, clock, {}));
  for (const std::string& damage : result.damages) fmt::print("damaged: {}\n", damage);
  if (result.damaged > static_cast<int64_t>(result.damages.size())) {
    fmt::print("and {} more\n", result.damaged - static_cast<int64_t>(result.damages.size()));
  }
  fmt::print("{}: {} samples, {} read, {} damaged\n", folder, format_count(result.samples),
             format_bytes(result.bytes),
             result.damaged == 0 ? "none" : format_count(result.damaged));
  return result.damaged == 0 ? kExitDone : kExitCorrupt;
}

}  // namespace tern
