#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHelp =
    R"(tern status: how a launched run is, on each of its machines.

  tern status             the runs that were launched from this machine
  tern status X           a line for each machine: its state, the process, the
                          last step and the last line of its log
  tern status X --json    for programs: also every process with its id and role

States: running; ended (with its exit code: 0 done, 75 preempted, 10 stopped);
lost (it vanished without a word: killed, or the machine was started anew);
unreachable (the machine does not answer, and the reason); absent (nothing of
the run is there). Exit code 0, or 6 if a machine is unreachable.
)";

Json status_json(const LaunchedRun& run, const std::vector<Json>& states) {
  return {{"name", run.name},       {"id", run.id},       {"run", run.run},
          {"command", run.command}, {"machines", states}, {"created_unix_ms", run.created_unix_ms}};
}

void print_table(const LaunchedRun& run, const std::vector<Json>& states) {
  size_t width = 4;
  for (const LaunchedMachine& each : run.machines) {
    width = std::max(width, each.machine.name.size());
  }
  fmt::print("{:>3}  {:<{}}  {:<14} {:>8} {:>8}  {}\n", "", "name", width, "state", "process",
             "step", "last line");
  for (const Json& state : states) {
    const int64_t step = number_in(state, "step", -1);
    const std::string reason = text_in(state, "reason");
    fmt::print("{:>3}  {:<{}}  {:<14} {:>8} {:>8}  {}\n", number_in(state, "machine", 0),
               text_in(state, "name"), width, describe_state(state),
               number_in(state, "pid", 0) == 0 ? "" : std::to_string(number_in(state, "pid", 0)),
               step < 0 ? "" : std::to_string(step),
               reason.empty() ? text_in(state, "last_line") : reason);
  }
}

enum class ListAs { table, json, names };

Result<int> list_runs(const Surroundings& surroundings, ListAs as) {
  ASSIGN_OR_RETURN(const LaunchedRuns runs, open_launched_runs(surroundings));
  if (as == ListAs::names) {
    for (const std::string& name : runs.names()) fmt::print("{}\n", name);
    return kExitDone;
  }
  const bool json = as == ListAs::json;
  Json all = Json::array();
  for (const std::string& name : runs.names()) {
    const Result<LaunchedRun> run = runs.open(name);
    if (json) {
      all.push_back({{"name", name}, {"machines", run ? run->machines.size() : 0}});
    } else if (run) {
      fmt::print("{:<20} {} machine{}\n", name, run->machines.size(),
                 run->machines.size() == 1 ? "" : "s");
    } else {
      fmt::print("{:<20} {}\n", name, run.error().message);
    }
  }
  if (json) fmt::print("{}\n", all.dump(2));
  if (!json && runs.names().empty()) {
    fmt::print("no run was launched from here; `tern launch --help` shows how\n");
  }
  return kExitDone;
}

}  // namespace

Result<int> status_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  bool json = false;
  bool names = false;
  CLI::App app;
  app.add_option("NAME", name);
  app.add_flag("--json", json);
  app.add_flag("--names", names);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern status", kHelp));
  if (is_help) return kExitDone;
  if (name.empty() || names) {
    return list_runs(surroundings, names ? ListAs::names : json ? ListAs::json : ListAs::table);
  }
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  const std::vector<Json> states = ask_all_states(opened.run, opened.shells);
  if (json) {
    fmt::print("{}\n",
               status_json(opened.run, states).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_table(opened.run, states);
  }
  for (const Json& state : states) {
    if (text_in(state, "state") == "unreachable") return kExitUnavailable;
  }
  return kExitDone;
}

}  // namespace tern
