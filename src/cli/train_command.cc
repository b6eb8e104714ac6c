// `tern train`: checks the run file, finds LibTorch, sets the environment it needs and becomes
// tern-train, which does the work under the same pid.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/command.h"
#include "cli/fetch_data.h"
#include "cli/find_libtorch.h"
#include "cli/find_trainer.h"
#include "cli/python_torch.h"
#include "cli/trainer_environment.h"
#include "core/stdio.h"
#include "preempt/signal_watcher.h"
#include "train/branch_source.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {

namespace {

// Long enough for a Python on a cold network disk.
constexpr std::chrono::seconds kPythonLimit{5};

// Prints every problem on a line of its own; the error that sums them up is main()'s to print.
Result<RunConfig> load_and_explain(const TrainRequest& request, const Surroundings& around) {
  std::vector<Problem> problems;
  Result<RunConfig> config = load_run_config(request, around.list_recipes(), problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  return config;
}

Result<int> print_options(const TrainRequest& request, const Surroundings& around) {
  RunConfig config;
  if (!request.file.empty()) {
    ASSIGN_OR_RETURN(config, load_and_explain(request, around));
  }
  fmt::print("Every option and its value, for a run file or for --set key=value:\n\n{}",
             format_option_help(describe_run(config)));
  return kExitDone;
}

// Returns only if it fails.
Error become(const std::filesystem::path& program, const Arguments& arguments,
             const std::vector<EnvironmentChange>& environment) {
  for (const EnvironmentChange& change : environment) {
    if (change.value) {
      setenv(change.name.c_str(), change.value->c_str(), 1);
    } else {
      unsetenv(change.name.c_str());
    }
  }
  std::string name = program.string();
  Arguments copies = arguments;
  std::vector<char*> pointers = {name.data()};
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return fail(Code::unavailable, fmt::format("cannot start {}: {}; was it built for this machine?",
                                             program.string(), std::strerror(errno)));
}

}  // namespace

Result<int> train_command(const Surroundings& surroundings, const Arguments& arguments) {
  const Nanoseconds started = time_since_boot();
  bool help = false;
  bool options = false;
  TrainRequest request;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--options", options);
  add_train_flags(app, request);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern train --help"));
  if (help) {
    fmt::print("{}", kTrainHelp);
    return kExitDone;
  }
  if (options) return print_options(request, surroundings);
  if (request.file.empty()) {
    write_stderr(kTrainTeach);
    return kExitUsage;
  }

  ASSIGN_OR_RETURN(const RunConfig config, load_and_explain(request, surroundings));
  ASSIGN_OR_RETURN(const std::filesystem::path run, run_folder(request, config));
  ASSIGN_OR_RETURN(const std::filesystem::path trainer, find_trainer(surroundings.executable));
  const FetchSetup fetch{config.data, surroundings.certificates, TERN_VERSION};
  ASSIGN_OR_RETURN(const bool must_fetch, agree_to_fetch(fetch, ask_on_terminal()));
  // From here on a notice waits until tern-train can obey it: the mask and what is pending survive
  // exec(). Reading the run file, which may be a pipe, can still be interrupted.
  RETURN_IF_ERROR(SignalWatcher::block_signals());
  SystemClock clock;
  ASSIGN_OR_RETURN(
      const std::filesystem::path libtorch,
      find_libtorch({.given = surroundings.libtorch,
                     .programs_folder = surroundings.executable.parent_path(),
                     .cache_folder = surroundings.cache,
                     .ask_python = [&clock] { return find_python_torch(clock, kPythonLimit); }}));

  if (must_fetch) {
    ASSIGN_OR_RETURN(const int fetched, fetch_data(fetch));
    if (fetched != kExitDone) return fetched;
  }
  const int64_t cores = usable_cores();
  int64_t recorded = request.fresh ? 0 : recorded_threads(run);
  if (recorded == 0 && !request.from.empty() && config.train.threads == 0) {
    // A branch computes as the run it comes from.
    ASSIGN_OR_RETURN(const BranchSource from, parse_from(request.from));
    recorded = recorded_threads(from.run);
  }
  const int64_t threads = decide_threads(recorded, config.train.threads, cores);
  std::vector<EnvironmentChange> environment =
      trainer_environment(libtorch, surroundings.library_path, threads, cores,
                          config.train.portable ? Arithmetic::portable : Arithmetic::native);
  environment.push_back({kStartedVariable, std::to_string(started.count())});
  return become(trainer, arguments, environment);
}

}  // namespace tern
