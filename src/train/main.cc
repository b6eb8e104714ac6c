// tern-train: trains one rank. A user types `tern train`, which checks the run file, finds LibTorch
// and becomes this program; the flags are the same.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/clock.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "preempt/file_watcher.h"
#include "preempt/signal_watcher.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/retry_store.h"
#include "train/exit_codes.h"
#include "train/fresh.h"
#include "train/train_flags.h"
#include "train/trainer.h"

namespace tern {
namespace {

// A network disk that hiccups is worth a second or two; a notice leaves no more.
constexpr RetryOptions kDiskRetries{.attempts_max = 4, .total_max = Milliseconds(2000)};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// `tern` has counted the cores, or read the run's recorded count, before LibTorch was loaded.
int64_t threads_if_left_open() {
  const int64_t given = std::atoll(environment("TERN_THREADS").c_str());
  return given > 0 ? given : std::max(1u, std::thread::hardware_concurrency());
}

Result<RunConfig> read_config(const TrainRequest& request) {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto recipes = list_recipes(recipe_folders(self, environment("TERN_RECIPES")));
  std::vector<Problem> problems;
  Result<RunConfig> config = load_run_config(request, recipes, problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  return config;
}

Status refuse_standing_halt_file(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return {};
  return fail(Code::failed_precondition,
              fmt::format("{} exists, so this run is told to halt; remove it to train", path));
}

// What will run: every option, those that are not the default marked.
void print_options(const RunConfig& config) {
  RunConfig shown;
  const OptionSet set = describe_run(shown);
  shown = config;
  write_stderr(set.to_table() + "\n");
}

// Progress on the screen; made at the first event, when the run's length is known.
class Screen {
 public:
  Screen(Log& log, Clock& clock) : log_(log), clock_(clock) {}

  void on_start(const StepEvent& event) {
    progress_.emplace(log_, clock_,
                      ProgressOptions{.what = "train",
                                      .unit = "samples",
                                      .total = event.total_samples,
                                      .start = event.samples});
  }
  void on_step(const StepEvent& event) {
    progress_->update(event.samples, fmt::format("step {} loss {:.3f}", event.step, event.loss));
  }
  void on_end() { progress_.reset(); }

 private:
  Log& log_;
  Clock& clock_;
  std::optional<Progress> progress_;
};

// A closed stdout (`| head`) is no reason to fail a run that is saved: what cannot be said is not.
void say_how_it_ended(const std::string& run, const Outcome& outcome) try {
  fmt::print("{}: {} at step {} ({}), {} steps lost\n", run, status_name(outcome.status),
             outcome.step, outcome.reason, outcome.steps_lost);
  if (outcome.status == RunStatus::preempted || outcome.status == RunStatus::stopped) {
    fmt::print("Run the same command again to go on from there.\n");
  }
} catch (const std::system_error&) {
}

Result<int> run(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const TrainRequest request, parse_train_flags(arguments));
  ASSIGN_OR_RETURN(RunConfig config, read_config(request));
  ASSIGN_OR_RETURN(const std::filesystem::path folder, run_folder(request, config));
  RETURN_IF_ERROR(refuse_standing_halt_file(request.halt_file));

  SystemClock clock;
  Log log(clock, Level::info);
  RealFileDoor door;
  NoticeBoard board;
  ASSIGN_OR_RETURN(const Holder me, this_process());
  ASSIGN_OR_RETURN(const auto signals,
                   SignalWatcher::start(board, clock, [] { _exit(kExitInterruptedTwice); }));
  std::optional<FileWatcher> halt_file;
  if (!request.halt_file.empty()) halt_file.emplace(board, clock, request.halt_file);

  // Data that cannot be read is refused before anything is moved or written.
  ASSIGN_OR_RETURN(RunData data, open_run_data(config));
  if (request.fresh) {
    const auto aside = set_old_run_aside(folder, door, clock, log, me, config.lease, board);
    if (!aside.has_value()) {
      const auto notice = board.notice();
      const bool was_told_to_leave = aside.error().code == Code::cancelled && notice;
      if (was_told_to_leave && notice->kind == NoticeKind::preempt) return kExitPreempted;
      return aside.error();
    }
    if (*aside) log.info("train", "the old run is kept", {{"in", (*aside)->string()}});
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskStore> disk, DiskStore::open(folder, door));
  RetryStore store(*disk, kDiskRetries, clock, static_cast<uint64_t>(me.pid));
  // A run that goes on has shown them before; what changed since is logged.
  if (!store.stat(kRunFileObject).has_value()) print_options(config);

  Screen screen(log, clock);
  const Result<Outcome> outcome =
      train({.config = config,
             .run_name = folder.string(),
             .command = fmt::format("tern train {}", fmt::join(arguments, " ")),
             .me = me,
             .cores = threads_if_left_open(),
             .run = &store,
             .clock = &clock,
             .log = &log,
             .board = &board,
             .on_start = [&](const StepEvent& event) { screen.on_start(event); },
             .on_step = [&](const StepEvent& event) { screen.on_step(event); }},
            std::move(data));
  screen.on_end();
  if (!outcome.has_value()) return outcome.error();
  say_how_it_ended(folder.string(), *outcome);
  return outcome->exit_code;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  tern::open_missing_standard_streams();
  // A pipe that nobody reads any more (`| head`) must not end a run; writes to it just fail.
  std::signal(SIGPIPE, SIG_IGN);
  // Before LibTorch or anything else makes a thread.
  if (const tern::Status blocked = tern::SignalWatcher::block_signals(); !blocked.has_value()) {
    tern::write_stderr(fmt::format("tern: {}\n", blocked.error().message));
    return tern::kExitInternal;
  }
  try {
    const tern::Result<int> code = tern::run({argv + 1, argv + argc});
    if (code.has_value()) return *code;
    tern::write_stderr(fmt::format("tern: {}\n", code.error().message));
    return tern::exit_code_of(code.error().code);
  } catch (const std::exception& error) {
    tern::write_stderr(fmt::format("tern: this is a bug in tern: {}\n", error.what()));
    return tern::kExitInternal;
  }
}
