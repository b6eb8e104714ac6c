#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/copy_progress.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "cli/status_follow.h"
#include "cli/status_table.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHelp =
    R"(tern status: how a launched run is, on each of its machines.

  tern status             the runs that were launched from this machine
  tern status X           a line for each machine, or for each rank of it: role
                          (hub, working, resting), rank, process, step, rate and
                          what it waits for, else the last line of the log
  tern status X -f, --follow   the same as it changes, until it has ended
  tern status X --json    for programs: every process with its id, role and step

States: running; ended (with its exit code: 0 done, 75 preempted, 10 stopped);
lost (it vanished without a word: killed, or the machine was started anew);
unreachable (the machine does not answer, and the reason); absent (nothing of
the run is there); pending (in Slurm's queue, and why). Exit code 0, or 6 if a
machine is unreachable.
)";

Json status_json(const LaunchedRun& run, const std::vector<Json>& states) {
  return {{"name", run.name},       {"id", run.id},       {"run", run.run},
          {"command", run.command}, {"machines", states}, {"created_unix_ms", run.created_unix_ms}};
}

// "Slurm job 12: RUNNING on n[1-3], requeued 2 times"
std::string describe_slurm(const LaunchedRun& run, const Json& state) {
  const Json job = state.contains("slurm") ? state["slurm"] : Json();
  const std::string nodes = text_in(job, "nodes");
  const int64_t restarts = number_in(job, "restarts", 0);
  return fmt::format("Slurm job {}: {}{}{}", run.slurm_job,
                     job.is_null() ? "Slurm does not answer" : text_in(job, "state"),
                     nodes.empty() ? "" : " on " + nodes,
                     restarts == 0   ? ""
                     : restarts == 1 ? ", requeued once"
                                     : fmt::format(", requeued {} times", restarts));
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
  bool follow = false;
  CLI::App app;
  app.add_option("NAME", name);
  app.add_flag("--json", json);
  app.add_flag("--names", names);
  app.add_flag("-f,--follow", follow);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern status", kHelp));
  if (is_help) return kExitDone;
  if (name.empty() || names) {
    return list_runs(surroundings, names ? ListAs::names : json ? ListAs::json : ListAs::table);
  }
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  if (follow && opened.slurm != nullptr) {
    return fail(Code::invalid, "-f is not for a job of Slurm; `tern logs X -f` follows it");
  }
  if (follow) {
    ASSIGN_OR_RETURN(const auto interruptible, Interruptible::start(clock));
    follow_status(opened, clock, interruptible->stop_token());
    return kExitDone;
  }
  const std::vector<Json> states = ask_states(opened);
  if (json) {
    fmt::print("{}\n",
               status_json(opened.run, states).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    if (opened.slurm != nullptr) fmt::print("{}\n", describe_slurm(opened.run, states.front()));
    for (const std::string& line : status_lines(states)) fmt::print("{}\n", line);
  }
  for (const Json& state : states) {
    if (text_in(state, "state") == "unreachable") return kExitUnavailable;
  }
  return kExitDone;
}

}  // namespace tern
