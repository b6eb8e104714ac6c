#include "cli/supervise_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

#include "cli/mesh_place.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/stdio.h"
#include "preempt/cloud_watch.h"
#include "preempt/file_watcher.h"
#include "preempt/signal_watcher.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

std::vector<std::string> changed_environment(const std::vector<EnvironmentChange>& changes) {
  const auto is_changed = [&changes](std::string_view entry) {
    return std::ranges::any_of(changes, [entry](const EnvironmentChange& change) {
      return entry.substr(0, entry.find('=')) == change.name;
    });
  };
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!is_changed(*entry)) environment.emplace_back(*entry);
  }
  for (const EnvironmentChange& change : changes) {
    if (change.value) environment.push_back(change.name + "=" + *change.value);
  }
  return environment;
}

// What no other try of the same process would change, and what is no failure at all.
bool is_final(int exit_code, bool is_alone) {
  switch (exit_code) {
    // Among other machines the run may be led from one that this one could not hear for a while:
    // it comes to that group as a new one.
    case kExitLostLease: return is_alone;
    case kExitDone:
    case kExitUsage:
    case kExitNotFound:
    case kExitCorrupt:
    case kExitPrecondition:
    case kExitDiverged:
    case kExitStopped:
    case kExitPreempted:
    case kExitInterruptedTwice: return true;
    default: return false;
  }
}

std::string read_variable(const Surroundings& surroundings, const char* name) {
  const VariableReader& variable = surroundings.cloud.variable;
  return variable ? variable(name).value_or("") : "";
}

// A closed stdout (`| head`) loses the line and nothing else.
void write_stdout(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = write(STDOUT_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

RankCommand rank_command(const Surroundings& surroundings, const TrainerStart& trainer,
                         bool has_begun) {
  TrainerStart start = trainer;
  if (has_begun) {
    start.started = time_since_boot();
    // The run has begun anew; what it has done since must not be set aside.
    std::erase_if(start.arguments,
                  [](const std::string& argument) { return argument.starts_with("--fresh"); });
  }
  return {
      .arguments = start.arguments,
      .environment = changed_environment(trainer_changes(surroundings, *start.programs, start))};
}

Result<int> supervise(const Surroundings& surroundings, const Supervision& supervision) {
  // A pipe that nobody reads any more (`| head`) must not end a run.
  std::signal(SIGPIPE, SIG_IGN);
  SystemClock clock;
  Log log(clock, Level::info);
  NoticeBoard board;
  // The ranks die with this process.
  ASSIGN_OR_RETURN(const auto signals,
                   SignalWatcher::start(board, clock, [] { _exit(kExitInterruptedTwice); }));
  CloudWatch cloud({.options = supervision.preempt,
                    .machine = read_machine(),
                    .variable = surroundings.cloud.variable,
                    .board = &board,
                    .clock = &clock,
                    .log = &log});
  std::optional<FileWatcher> halt_file;
  if (!supervision.halt_file.empty()) halt_file.emplace(board, clock, supervision.halt_file);

  Supervisor supervisor(
      {.options = supervision.ranks,
       .place = supervision.place,
       .has_boundaries = supervision.has_boundaries,
       .ends_orphans = supervision.ends_orphans,
       .status_file = read_variable(surroundings, kStatusFileVariable),
       .title = supervision.title,
       .run = supervision.run,
       .program = supervision.program,
       .command = supervision.command,
       .is_final = supervision.is_final,
       .is_end = supervision.is_end,
       .out = write_stdout,
       .err = [](std::string_view line) { write_stderr(line); },
       .exit_code_of =
           [](NoticeKind kind) { return kind == NoticeKind::stop ? kExitStopped : kExitPreempted; },
       .board = &board,
       .clock = &clock,
       .log = &log});
  ASSIGN_OR_RETURN(const int exit_code, supervisor.run());
  // Last of all: the machine may be gone a moment later.
  if (exit_code == kExitPreempted) cloud.machine_may_go();
  return exit_code;
}

Result<int> supervise_ranks(const Surroundings& surroundings, const RanksStart& start) {
  return supervise(
      surroundings,
      {.ranks = start.ranks,
       .preempt = start.preempt,
       .title = "tern-train",
       .run = start.run,
       .halt_file = start.halt_file,
       .place = start.place,
       .program = start.trainer.programs->trainer,
       .command =
           [&](bool has_begun) { return rank_command(surroundings, start.trainer, has_begun); },
       .is_final = [&](int exit_code) { return is_final(exit_code, !start.place); }});
}

}  // namespace tern
