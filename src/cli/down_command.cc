#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "fleet/agent_call.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern down: leave nothing of a launched run on its machines.

  tern down X              what still runs gets a notice, 10 s to save itself,
                           and is ended with all that belongs to it; its files
                           there (the log, too) are removed
  tern down X --grace S    S seconds instead; 0 ends it at once

The run itself (checkpoints, records) stays where it is kept, and tern stays in
~/.cache/tern/bundles of the machines for the next launch. A machine that cannot
be reached is named; the same command tries again.
)";

}  // namespace

Result<int> down_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  int64_t grace_s = 10;
  CLI::App app;
  app.add_option("NAME", name);
  app.add_option("--grace", grace_s)->check(CLI::Range(0, 3600));
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern down", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  const Milliseconds grace(grace_s * 1000);
  RETURN_IF_ERROR(opened.slurm != nullptr ? opened.slurm->remove(grace)
                                          : remove_all_agents(opened.run, opened.shells, grace));
  ASSIGN_OR_RETURN(const LaunchedRuns runs, open_launched_runs(surroundings));
  RETURN_IF_ERROR(runs.remove(name));
  fmt::print("{}: nothing of it is left on {} machine{}\n", name, opened.run.machines.size(),
             opened.run.machines.size() == 1 ? "" : "s");
  return kExitDone;
}

}  // namespace tern
