#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"
#include "fleet/on_all.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHelp =
    R"(tern restart: start what a launched run has lost on its machines.

  tern restart X                on every machine whose agent is lost: it was
                                killed, or the machine was started anew
  tern restart X --machine I    on that one, by its number or its name; also if
                                what ran there has ended, as after a preemption

It comes back with the same number, secret and log, and goes on with the run;
launch.setup runs first if the machine was started anew.
What is killed while its agent lives is started again without this command.
Exit code 0, or 6 if a machine is unreachable.
)";

struct Choice {
  std::vector<size_t> machines;  // to be started
  Status unreachable;            // those that do not say whether they are to be
};

Result<Choice> choose(const OpenedRun& opened, const std::string& machine) {
  if (!machine.empty()) {
    ASSIGN_OR_RETURN(const size_t index, opened.run.find_machine(machine));
    return Choice{{index}, {}};
  }
  Choice choice;
  std::vector<Result<Json>> silent;
  for (const Json& state : ask_all_states(opened.run, opened.shells)) {
    if (text_in(state, "state") == "lost") {
      choice.machines.push_back(static_cast<size_t>(number_in(state, "machine", 0)));
    } else if (text_in(state, "state") == "unreachable") {
      silent.emplace_back(fail(Code::unavailable, text_in(state, "reason")));
    }
  }
  choice.unreachable = all_good(silent);
  return choice;
}

}  // namespace

Result<int> restart_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  std::string machine;
  CLI::App app;
  app.add_option("NAME", name);
  app.add_option("--machine", machine);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern restart", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  ASSIGN_OR_RETURN(OpenedRun opened, open_launched_run(surroundings, name, clock));
  if (opened.slurm != nullptr) {
    return fail(Code::invalid,
                fmt::format("a job of Slurm comes back by itself; `scontrol update jobid={} "
                            "StartTime=now` starts one that waits",
                            opened.run.slurm_job));
  }
  ASSIGN_OR_RETURN(const Choice choice, choose(opened, machine));
  const std::vector<size_t>& chosen = choice.machines;
  const auto answers = on_all(chosen.size(), [&](size_t i) -> Result<Json> {
    const size_t index = chosen[i];
    const std::string& tern = opened.run.machines[index].tern;
    // What it mounted is gone if the machine was started anew.
    if (!opened.run.setup.empty()) {
      RETURN_IF_ERROR(ask_for_setup(opened.shells[index], tern, opened.run.setup));
    }
    return ask_agent(opened.shells[index], tern,
                     {.verb = "restart", .request = agent_key(opened.run, index)});
  });
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!answers[i]) continue;
    LaunchedMachine& launched = opened.run.machines[chosen[i]];
    launched.agent = parse_agent_answer(*answers[i], clock.unix_ms());
    fmt::print("{}: started again, process {}\n", launched.machine.name,
               launched.agent.command.pid);
  }
  ASSIGN_OR_RETURN(const LaunchedRuns runs, open_launched_runs(surroundings));
  RETURN_IF_ERROR(runs.update(opened.run));
  RETURN_IF_ERROR(all_good(answers));
  RETURN_IF_ERROR(choice.unreachable);
  if (chosen.empty()) {
    fmt::print("{}: nothing of it is lost; --machine I starts one that has ended\n", name);
  }
  return kExitDone;
}

}  // namespace tern
