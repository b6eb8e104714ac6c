#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/copy_progress.h"
#include "cli/store_bench.h"
#include "cli/store_commands.h"
#include "cli/store_objects.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern store bench: how fast a bucket or a folder is from here.

  tern store bench URI              writes, reads and removes objects below URI
  --objects 100  --size 110K        the small ones
  --large 64M                       one that is sent in parts and read by
                                    ranges; 0 leaves it out
  --in-flight 16                    requests at once
  --json                            for programs: an array of objects with what,
                                    requests, bytes, seconds, median_ms and
                                    slowest_ms

Everything it writes is below URI/tern-bench-... and is removed at the end. A
cloud asks money for requests and for what leaves it: with these defaults, much
less than a cent.
)";

void print_row(const StoreBenchRow& row) {
  fmt::print("{}", format_bench_row(row));
  std::fflush(stdout);
}

}  // namespace

Result<int> store_bench_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool as_json = false;
  std::string size = "110K";
  std::string large = "64M";
  StoreBenchOptions options;
  CLI::App app;
  app.add_flag("--json", as_json);
  app.add_option("--objects", options.objects)->check(CLI::Range(1, 1'000'000));
  app.add_option("--size", size);
  app.add_option("--large", large);
  app.add_option("--in-flight", options.in_flight)->check(CLI::Range(1, 256));
  ASSIGN_OR_RETURN(const std::optional<StoreAddress> address,
                   parse_uri(app, arguments, "tern store bench", kHelp));
  if (!address) return kExitDone;
  ASSIGN_OR_RETURN(options.object_bytes, parse_size("--size", size, 1, int64_t{64} << 20));
  ASSIGN_OR_RETURN(options.large_bytes, parse_size("--large", large, 0, int64_t{4} << 30));
  SystemClock clock;
  ASSIGN_OR_RETURN(const auto interruptible, Interruptible::start(clock));
  CloudDoor door(surroundings.cloud, clock, {}, {}, {.in_flight_max = options.in_flight});
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, door.open(*address));
  if (!as_json) fmt::print("{}", format_bench_columns());
  const Result<std::vector<StoreBenchRow>> measured =
      bench_store(*store, clock, options, interruptible->stop_token(),
                  as_json ? OnBenchRow() : OnBenchRow(print_row));
  if (!measured) {
    const auto code = interruptible->exit_code(measured.error(), "what it wrote is removed");
    if (code) return *code;
    return measured.error();
  }
  if (as_json) fmt::print("{}\n", store_bench_json(*measured).dump(2));
  return kExitDone;
}

}  // namespace tern
