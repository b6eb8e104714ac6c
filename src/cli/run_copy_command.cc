#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "cli/copy_progress.h"
#include "cli/run_copy.h"
#include "cli/run_holder.h"
#include "cli/store_commands.h"
#include "core/progress.h"
#include "train/exit_codes.h"
#include "train/run_place.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern run copy: copy a run with all its checkpoints and records, verified.

  tern run copy FROM TO            for example demo to s3://bucket/runs/demo, or
                                   s3://bucket/runs/demo to az://acc/box/demo
  tern run copy FROM TO --create   and makes TO's bucket if it is not there

FROM and TO are runs: names in runs/, folders, or s3://bucket/prefix,
gs://bucket/prefix, az://account/container/prefix. TO must be empty. Every copy
is read again and compared, byte by byte. FROM is only read.

Refused: a run that a process is training. If that process was on another
machine, tern waits as long as the run's lease (a minute by default) for a sign
of life. Stopped in the middle, TO is marked and no command takes it for a run;
the same command goes on. The copy is trained on by `tern train FILE --run TO`.
)";

struct Ends {
  StoreAddress from;
  StoreAddress to;
};

Result<Ends> parse_ends(const std::string& from, const std::string& to) {
  if (from.empty() || to.empty()) {
    return fail(Code::invalid, "which run, and to where? see `tern run copy --help`");
  }
  Ends ends;
  ASSIGN_OR_RETURN(ends.from, parse_run_place(from));
  ASSIGN_OR_RETURN(ends.to, parse_run_place(to));
  std::error_code error;
  const bool is_same = ends.from == ends.to ||
                       (ends.from.is_folder() && ends.to.is_folder() &&
                        std::filesystem::equivalent(ends.from.prefix, ends.to.prefix, error));
  if (!is_same) return ends;
  return fail(Code::invalid, "FROM and TO are the same place; give the copy another one");
}

Result<std::unique_ptr<ObjectStore>> open_source(CloudDoor& door, const StoreAddress& place) {
  ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> run, open_run(door, place));
  ASSIGN_OR_RETURN(const bool is_run, holds_run(*run));
  if (is_run) return run;
  return fail(Code::not_found, fmt::format("there is no run in {}; `tern ls` lists the runs that "
                                           "are here",
                                           place.to_string()));
}

Result<RunCopyResult> copy(const RunCopySetup& setup, Clock& clock) {
  Log log(clock, Level::info);
  ASSIGN_OR_RETURN(const int64_t newest,
                   wait_until_unheld(*setup.from, setup.from_name, clock, log, setup.stop));
  ASSIGN_OR_RETURN(const int64_t bytes, run_bytes(*setup.from));
  std::optional<Result<RunCopyResult>> result;
  RETURN_IF_ERROR(with_progress(log, clock, {.what = "copy", .unit = "bytes", .total = bytes},
                                [&](const OnDone& on_bytes) {
                                  result = copy_run(setup, on_bytes);
                                  return *result ? Status() : Status(result->error());
                                }));
  ASSIGN_OR_RETURN(const int64_t now, newest_record_number(*setup.from));
  if (now != newest) {
    return fail(Code::failed_precondition,
                fmt::format("{} was trained while it was copied; the same command brings the copy "
                            "up to date",
                            setup.from_name));
  }
  RETURN_IF_ERROR(finish_copy(setup));
  return *result;
}

}  // namespace

Result<int> run_copy_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool create = false;
  std::string from;
  std::string to;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--create", create);
  app.add_option("FROM", from);
  app.add_option("TO", to);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern run copy --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  ASSIGN_OR_RETURN(const Ends ends, parse_ends(from, to));
  SystemClock clock;
  ASSIGN_OR_RETURN(const auto interruptible, Interruptible::start(clock));
  MappedFiles mapped;
  CloudDoor door(surroundings.cloud, clock, {}, {},
                 {.on_sent = [&mapped](BytesView bytes) { mapped.let_go(bytes); }});
  ASSIGN_OR_RETURN(const auto source, open_source(door, ends.from));
  if (create && !ends.to.is_folder()) {
    ASSIGN_OR_RETURN(const auto bucket, door.open_bucket(ends.to));
    RETURN_IF_ERROR(bucket->make_bucket());
  }
  ASSIGN_OR_RETURN(const auto target, door.open(ends.to));
  const Result<RunCopyResult> copied = copy({.from = source.get(),
                                             .to = target.get(),
                                             .from_name = ends.from.to_string(),
                                             .to_name = ends.to.to_string(),
                                             .move = {.mapped = &mapped},
                                             .stop = interruptible->stop_token()},
                                            clock);
  if (!copied) {
    const auto code = interruptible->exit_code(copied.error(), "the same command goes on");
    if (code) return *code;
    return copied.error();
  }
  fmt::print("{}: {}, {}, every one read again and equal{}\n", ends.to.to_string(),
             format_count(copied->objects, "object"), format_bytes(copied->bytes),
             copied->there_before == 0
                 ? ""
                 : fmt::format("; {} were there from before", format_count(copied->there_before)));
  return kExitDone;
}

}  // namespace tern
