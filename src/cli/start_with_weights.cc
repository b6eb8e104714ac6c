#include "cli/start_with_weights.h"

#include <fmt/format.h>

#include "cli/run_list.h"
#include "cli/trainer_environment.h"
#include "core/stdio.h"
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
  std::error_code error;
  if (!std::filesystem::exists(request.init, error)) {
    return fail(Code::not_found, fmt::format("there is no file {}; give the path of a .safetensors "
                                             "or .pth file",
                                             request.init));
  }
  return TrainerStart{.threads = config->train.threads, .portable = config->train.portable};
}

}  // namespace

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

}  // namespace tern
