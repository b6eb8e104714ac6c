// `tern program`: supervises any program as `tern train --ranks` supervises trainers. Hidden: the
// agent of `tern launch ... -- PROGRAM` runs it (docs/launch.md).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "cli/mesh_place.h"
#include "cli/parse_or_help.h"
#include "cli/program_commands.h"
#include "cli/supervise_ranks.h"
#include "core/stdio.h"
#include "preempt/signal_watcher.h"
#include "program/program_rank.h"
#include "train/exit_codes.h"
#include "train/run_place.h"
#include "train/train_flags.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHelp =
    R"(tern program: run any program as several ranks that are started again together.

  tern program [--ranks N] [--run URI] [--work DIR] [--leave-port-free]
               -- PROGRAM [WORD]...

  --ranks N    processes on this machine; not given: 1
  --run URI    where what the program saves in $TERN_CHECKPOINT_DIR, and what
               happened, is kept: a folder, s3://bucket/prefix and the like
  --work DIR   for the checkpoint folder; not given: one that is removed
  --leave-port-free
               the program listens at MASTER_PORT, or at a port of its own;
               not given: tern keeps the store there by which PyTorch's
               ranks meet

`tern launch --name X --run URI -- PROGRAM` runs it on other machines, in the
background; docs/launch.md has the variables. Exit codes: the program's own.
)";

struct Request {
  int64_t ranks = 1;
  std::string run;
  std::string work;
  bool leaves_port_free = false;
};

// The folder that was named, or one that goes away with the command, unless it has what is nowhere
// else.
class WorkFolder {
 public:
  static Result<WorkFolder> open(const std::string& given) {
    std::error_code error;
    if (!given.empty()) {
      fs::create_directories(given, error);
      if (error)
        return fail(Code::unavailable, fmt::format("cannot make {}: {}", given, error.message()));
      fs::remove(fs::path(given) / kNotKeptFile, error);
      return WorkFolder(fs::absolute(given), {});
    }
    std::string made = (fs::temp_directory_path(error) / "tern-program-XXXXXX").string();
    if (error || mkdtemp(made.data()) == nullptr) {
      return fail(Code::unavailable,
                  fmt::format("cannot make the folder {}; name one with --work", made));
    }
    return WorkFolder(made, made);
  }
  WorkFolder(WorkFolder&& other) noexcept
      : path_(std::move(other.path_)), to_remove_(std::exchange(other.to_remove_, {})) {}
  ~WorkFolder() {
    std::error_code ignored;
    if (!to_remove_.empty() && !is_wanted()) fs::remove_all(to_remove_, ignored);
  }
  bool is_wanted() const {
    std::error_code ignored;
    return fs::exists(path_ / kNotKeptFile, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  WorkFolder(fs::path path, fs::path to_remove)
      : path_(std::move(path)), to_remove_(std::move(to_remove)) {}

  fs::path path_;
  fs::path to_remove_;
};

RankCommand command_of(const Request& request, const fs::path& work, const Arguments& words,
                       bool has_begun) {
  RankCommand command;
  command.arguments = {"program-rank", "--work", work.string()};
  if (!request.run.empty()) {
    command.arguments.insert(command.arguments.end(), {"--run", request.run});
  }
  if (request.leaves_port_free) command.arguments.emplace_back("--leave-port-free");
  if (has_begun) command.arguments.emplace_back("--begun");
  command.arguments.emplace_back("--");
  command.arguments.insert(command.arguments.end(), words.begin(), words.end());
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    command.environment.emplace_back(*entry);
  }
  return command;
}

Status check_run(const Surroundings& surroundings, const std::string& run) {
  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(run));
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, door.open(place));
  return prepare_run_place(door, place, *store, MissingBucket::refuse);
}

bool is_final(int exit_code) {
  return exit_code == kExitDone || exit_code == kProgramPreempted ||
         exit_code == kProgramNotStarted;
}

}  // namespace

Result<int> program_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  CLI::App app;
  app.add_option("--ranks", request.ranks)->check(CLI::Range(int64_t{1}, kRanksMax));
  app.add_option("--run", request.run);
  app.add_option("--work", request.work);
  app.add_flag("--leave-port-free", request.leaves_port_free);
  const auto dashes = std::ranges::find(arguments, "--");
  ASSIGN_OR_RETURN(const bool is_help,
                   parse_or_help(app, {arguments.begin(), dashes}, "tern program", kHelp));
  if (is_help) return kExitDone;
  const Arguments words(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  if (words.empty()) {
    return fail(Code::invalid, "which program? Add `-- PROGRAM`; see `tern program --help`");
  }
  ASSIGN_OR_RETURN(const std::optional<MeshPlace> place,
                   read_mesh_place(surroundings.cloud.variable));
  RETURN_IF_ERROR(SignalWatcher::block_signals());
  if (!request.run.empty()) {
    RETURN_IF_ERROR(check_run(surroundings, request.run));
  }
  ASSIGN_OR_RETURN(const WorkFolder work, WorkFolder::open(request.work));
  std::optional<int> failed;
  const Result<int> ended = supervise(
      surroundings,
      {.ranks = {.count = request.ranks, .min = request.ranks},
       .title = "tern program",
       .run = request.run.empty() ? words.front() : request.run,
       .place = place,
       .has_boundaries = false,
       .ends_orphans = true,
       .program = surroundings.executable,
       .command =
           [&](bool has_begun) { return command_of(request, work.path(), words, has_begun); },
       .is_final =
           [&failed, &work](int exit_code) {
             if (is_final(exit_code) || work.is_wanted()) return true;
             // Those that are told to stop when another is given up failed of nothing.
             if (!failed || exit_code != kProgramStopped) failed = exit_code;
             return false;
           },
       .is_end = [&work](int exit_code) { return exit_code == kExitDone || work.is_wanted(); }});
  if (ended || !failed) return ended;
  // What it ended with says more than that it was given up.
  write_stderr(fmt::format("tern: {}\n", ended.error().message));
  return *failed;
}

}  // namespace tern
