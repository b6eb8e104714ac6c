#include "cli/start_with_weights.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/become_trainer.h"
#include "cli/parse_or_help.h"
#include "cli/run_list.h"
#include "cli/trainer_environment.h"
#include "core/stdio.h"
#include "train/exit_codes.h"
#include "train/run_place.h"

namespace tern {
namespace {

Result<TrainerStart> start_with_file(const Surroundings& surroundings,
                                     const WeightsRequest& request) {
  std::vector<Problem> problems;
  const Result<RunConfig> config =
      load_run_config({.file = request.run, .assignments = request.assignments},
                      surroundings.list_recipes(), problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  if (!config) return config.error();
  // What is in a bucket is looked for when it is read.
  std::error_code error;
  ASSIGN_OR_RETURN(const StoreAddress weights, parse_store_address(request.init));
  if (weights.is_folder() && !std::filesystem::exists(weights.prefix, error)) {
    return fail(Code::not_found, fmt::format("there is no file {}; give the path of a .safetensors "
                                             "or .pth file",
                                             weights.prefix));
  }
  return TrainerStart{.threads = config->train.threads, .portable = config->train.portable};
}

// How to compute with these weights: as the run did, or as the run file of --init says. not_found
// if there is no such run.
Result<TrainerStart> start_with_weights(const Surroundings& surroundings,
                                        const WeightsRequest& request) {
  if (!request.init.empty()) return start_with_file(surroundings, request);
  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(request.run));
  if (place.is_folder() && !is_run_folder(place.prefix)) {
    return fail(Code::not_found, fmt::format("there is no run in {}; `tern ls` lists the runs that "
                                             "are here",
                                             place.prefix));
  }
  // Before the first thread is made: from here on a signal waits for tern-train.
  ASSIGN_OR_RETURN(TrainerPrograms programs, find_trainer_programs(surroundings));
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock);
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, open_run(door, place));
  ASSIGN_OR_RETURN(const int64_t threads, recorded_threads(*store));
  return TrainerStart{.threads = threads,
                      .portable = recorded_options(*store).train.portable,
                      .programs = std::move(programs)};
}

}  // namespace

Result<int> weights_command(const WeightsCommand& command, const Surroundings& surroundings,
                            const Arguments& arguments, const WeightsRequest& weights,
                            const std::function<void(CLI::App&)>& add_flags,
                            const std::function<Status()>& check) {
  const Nanoseconds started = time_since_boot();
  CLI::App app;
  add_flags(app);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, command.name, command.help));
  if (is_help) return kExitDone;
  RETURN_IF_ERROR(check());
  ASSIGN_OR_RETURN(TrainerStart start, start_with_weights(surroundings, weights));
  start.arguments = arguments;
  start.arguments.insert(start.arguments.begin(), command.mode);
  start.started = started;
  return become_trainer(surroundings, start);
}

}  // namespace tern
