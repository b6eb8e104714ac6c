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
    R"(tern preempt: the fire drill. Sends a real notice to a machine of a run.

  tern preempt X --machine I    by its number or its name; not given: machine 0

What runs there gets SIGTERM and finds the notice in $TERN_NOTICE_FILE, as when
the machine is taken away: a run saves itself and leaves with 75. Nobody is
killed. `tern status X` shows what came of it.
)";

}  // namespace

Result<int> preempt_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  std::string machine = "0";
  CLI::App app;
  app.add_option("NAME", name);
  app.add_option("--machine", machine);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern preempt", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  ASSIGN_OR_RETURN(const size_t index, opened.run.find_machine(machine));
  if (opened.slurm != nullptr) {
    RETURN_IF_ERROR(opened.slurm->preempt(index));
    fmt::print("{}: told that the machine will go; the job goes back to the queue\n",
               opened.run.machines[index].machine.name);
    return kExitDone;
  }
  ASSIGN_OR_RETURN(const nlohmann::json state,
                   ask_agent(opened.shells[index], opened.run.machines[index].tern,
                             {.verb = "preempt", .request = agent_key(opened.run, index)}));
  fmt::print("{}: told that the machine will go; now {}\n", opened.run.machines[index].machine.name,
             describe_state(state));
  return kExitDone;
}

}  // namespace tern
