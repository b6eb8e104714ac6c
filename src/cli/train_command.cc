// `tern train`: checks the run file, finds LibTorch, sets the environment it needs and becomes
// tern-train, which does the work under the same pid; or with --ranks supervises several of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/become_trainer.h"
#include "cli/command.h"
#include "cli/fetch_data.h"
#include "cli/mesh_place.h"
#include "cli/supervise_ranks.h"
#include "cli/trainer_environment.h"
#include "core/stdio.h"
#include "train/branch_source.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

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

// Then each rank has a GPU, and a standby would have none.
bool has_gpu_driver() {
  std::error_code ignored;
  return std::filesystem::exists("/proc/driver/nvidia/version", ignored);
}

// The thread count that the run, or the run it branches from, has fixed; 0: none.
Result<int64_t> find_threads(const Surroundings& around, const TrainRequest& request,
                             const RunConfig& config, const StoreAddress& run) {
  SystemClock clock;
  CloudDoor door(around.cloud, clock);
  const auto threads_of = [&door](const StoreAddress& place) -> Result<int64_t> {
    const Result<std::unique_ptr<ObjectStore>> store = door.open(place);
    // A folder that cannot be opened is tern-train's to explain.
    if (!store && place.is_folder()) return int64_t{0};
    if (!store) return store.error();
    return recorded_threads(**store);
  };
  if (!request.fresh) {
    ASSIGN_OR_RETURN(const int64_t own, threads_of(run));
    if (own > 0) return own;
  }
  if (request.from.empty() || config.train.threads > 0) return int64_t{0};
  // A branch computes as the run it comes from.
  ASSIGN_OR_RETURN(const BranchSource from, parse_from(request.from));
  return threads_of(from.run);
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
  ASSIGN_OR_RETURN(const StoreAddress run, run_place(request, config));
  ASSIGN_OR_RETURN(const std::optional<MeshPlace> place,
                   read_mesh_place(surroundings.cloud.variable));
  if (!place && config.ranks.min > config.ranks.count) {
    return fail(Code::invalid,
                fmt::format("ranks.min is {}, and no more than {} take part; lower it, or raise "
                            "ranks.count (--ranks)",
                            config.ranks.min, config.ranks.count));
  }
  const FetchSetup fetch{config.data, surroundings.certificates, TERN_VERSION};
  ASSIGN_OR_RETURN(const bool must_fetch, agree_to_fetch(fetch, ask_on_terminal()));
  // Before a long download. Reading the run file, which may be a pipe, could still be interrupted;
  // from here on a notice waits for tern-train.
  ASSIGN_OR_RETURN(TrainerPrograms programs, find_trainer_programs(surroundings));
  if (must_fetch) {
    ASSIGN_OR_RETURN(const int fetched, fetch_data(fetch));
    if (fetched != kExitDone) return fetched;
  }
  ASSIGN_OR_RETURN(const int64_t recorded, find_threads(surroundings, request, config, run));
  const int64_t cores = std::max<int64_t>(1, usable_cores() / config.ranks.count);
  const TrainerStart start{.arguments = arguments,
                           .threads = decide_threads(recorded, config.train.threads, cores),
                           .cores = cores,
                           .portable = config.train.portable,
                           .started = started,
                           .programs = std::move(programs)};
  if (config.ranks.count == 1 && !place) return become_trainer(surroundings, start);
  RanksOptions ranks = config.ranks;
  if (config.train.device != "cpu" && has_gpu_driver()) ranks.standby = 0;
  return supervise_ranks(surroundings, {.trainer = start,
                                        .ranks = ranks,
                                        .preempt = config.preempt,
                                        .run = run.to_string(),
                                        .halt_file = request.halt_file,
                                        .place = place});
}

}  // namespace tern
