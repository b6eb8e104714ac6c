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
    R"(tern stop: have a launched run save itself and stop, on all its machines.

  tern stop X            a run gets what Ctrl-C is: it saves and leaves with 10;
                         any other program gets SIGTERM
  tern stop X --wait S   wait at most S seconds for that, instead of 60

The machines stay as they are, with the log; the same `tern launch` goes on
after `tern down X`. Exit code 0 if it has stopped everywhere, else 6.
)";

}  // namespace

Result<int> stop_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  int64_t wait_s = 60;
  CLI::App app;
  app.add_option("NAME", name);
  app.add_option("--wait", wait_s)->check(CLI::Range(0, 86400));
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern stop", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  const std::string later = fmt::format(
      "{0} was told and is not done yet; `tern status {0}` shows when it is, `tern down {0}` ends "
      "it at once",
      name);
  if (opened.slurm != nullptr) {
    ASSIGN_OR_RETURN(const bool ended, opened.slurm->stop(std::chrono::seconds(wait_s)));
    for (const Json& state : opened.slurm->states()) {
      fmt::print("{}: {}\n", text_in(state, "name"), describe_state(state));
    }
    if (ended) return kExitDone;
    return fail(Code::deadline_exceeded, later);
  }
  const auto answers = on_all(opened.shells.size(), [&](size_t i) {
    Json request = agent_key(opened.run, i);
    request["wait_ms"] = wait_s * 1000;
    return ask_agent(opened.shells[i], opened.run.machines[i].tern,
                     {"stop", request, Milliseconds((wait_s + 60) * 1000)});
  });
  bool all_stopped = true;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    fmt::print("{}: {}\n", opened.run.machines[i].machine.name, describe_state(*answers[i]));
    all_stopped = all_stopped && text_in(*answers[i], "state") != "running";
  }
  RETURN_IF_ERROR(all_good(answers));
  if (all_stopped) return kExitDone;
  return fail(Code::deadline_exceeded, later);
}

}  // namespace tern
