// `tern launch`: trains, or runs any program, on machines that are given, and lets go of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <fstream>

#include "cli/command.h"
#include "cli/copy_progress.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "core/stdio.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"
#include "fleet/launch.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHelp =
    R"(tern launch: train, or run any program, on the machines that you have.

  tern launch FILE --name X [--on local|ssh] [--hosts H] [--run URI]
              [--machines K] [--ranks-per-machine R] [--set key=value]...
              [--detach]
  tern launch --name X [--hosts H] [--machines K] -- PROGRAM [WORD]...

  FILE              a run file or recipe; it is sent along. Its launch.setup
                    commands run first, once on each machine
  -- PROGRAM        any program instead: it is told of notices by SIGTERM and by
                    the file $TERN_NOTICE_FILE; $TERN_MACHINE is its number
  --name X          what `tern status X`, logs, connect, stop, preempt and down
                    know it by, from any terminal of this machine
  --on ssh          not given: ssh with --hosts, else local (this machine)
  --hosts H         a TOML file, the instances.json of `aws ec2
                    describe-instances`, or names and patterns of ~/.ssh/config
                    as 'gpu-*' or a,b,user@10.0.0.7 (docs/launch.md)
  --machines K      use K of them; not given: all that are no spares
  --ranks-per-machine R   not given: as the hosts file says, or 1
  --run URI         where the run is kept, on the machines: s3://bucket/prefix
                    and the like, or a folder there. Not given: runs/X
  --set key=value   set one option, over the run file
  --detach          return once it runs; without it the logs are shown, and
                    Ctrl-C only leaves them

Each machine gets this tern once, must pass `tern doctor` if it is to train, and
is named with the reason if it fails; nothing is left running then. Exit codes:
those of the program or run that was followed (0 done, 75 preempted), 0 with
--detach, else as of any command (docs/errors.md).
)";

struct Request {
  TrainRequest train;
  std::string name;
  std::string on;
  std::string hosts;
  int64_t machines = 0;
  int64_t ranks = 0;
  bool detach = false;
  std::vector<std::string> program;

  bool is_program() const { return !program.empty(); }
};

void add_flags(CLI::App& app, Request& request) {
  app.add_option("FILE", request.train.file);
  app.add_option("--name", request.name);
  app.add_option("--on", request.on)->check(CLI::IsMember({"local", "ssh"}));
  app.add_option("--hosts", request.hosts);
  app.add_option("--machines", request.machines)->check(CLI::Range(1, 1000));
  app.add_option("--ranks-per-machine", request.ranks)->check(CLI::Range(1, 1024));
  app.add_option("--run", request.train.run);
  app.add_option("--set", request.train.assignments)->allow_extra_args(false);
  app.add_flag("--detach", request.detach);
}

Status check_request(Request& request) {
  if (request.name.empty()) {
    return fail(Code::invalid, "what shall it be called? Add --name X; see `tern launch --help`");
  }
  RETURN_IF_ERROR(LaunchedRuns::check_name(request.name));
  if (request.is_program() == !request.train.file.empty()) {
    return fail(Code::invalid,
                "give a run file, or `-- PROGRAM` for any program; see `tern launch --help`");
  }
  if (request.on.empty()) request.on = request.hosts.empty() ? "local" : "ssh";
  if ((request.on == "ssh") == request.hosts.empty()) {
    return fail(Code::invalid, request.hosts.empty()
                                   ? "on which machines? Add --hosts; see `tern launch --help`"
                                   : "--hosts is for --on ssh; leave out one of the two");
  }
  return {};
}

Result<std::vector<FleetMachine>> choose_machines(const Request& request,
                                                  const Surroundings& surroundings, Clock& clock) {
  std::vector<FleetMachine> machines;
  if (request.on == "local") {
    for (int64_t i = 0; i < std::max<int64_t>(1, request.machines); ++i) {
      machines.push_back({.name = fmt::format("local-{}", i)});
    }
    return machines;
  }
  ASSIGN_OR_RETURN(const std::vector<FleetMachine> all,
                   read_hosts(request.hosts, hosts_place(surroundings, clock)));
  std::ranges::copy_if(all, std::back_inserter(machines),
                       [](const FleetMachine& machine) { return !machine.spare; });
  if (std::ssize(machines) < std::max<int64_t>(1, request.machines)) {
    return fail(
        Code::invalid,
        fmt::format("{} machines are asked for, and {} lists {} that are no spares",
                    std::max<int64_t>(1, request.machines), request.hosts, machines.size()));
  }
  if (request.machines > 0) machines.resize(static_cast<size_t>(request.machines));
  return machines;
}

// What each machine runs for a run file. What is wrong with the file is told here, before any
// machine is asked.
Status describe_training(Request& request, const Surroundings& surroundings, LaunchSetup& setup) {
  std::vector<Problem> problems;
  const std::vector<Recipe> recipes = surroundings.list_recipes();
  const Result<RunConfig> config = load_run_config(request.train, recipes, problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  if (!config) return config.error();
  if (setup.run.machines.size() > 1) {
    return fail(Code::invalid,
                fmt::format("a run trains on one machine as yet, and {} are named; add --machines "
                            "1, or start a program on all of them with `-- PROGRAM`",
                            setup.run.machines.size()));
  }
  ASSIGN_OR_RETURN(const fs::path file, find_run_file(request.train.file, recipes));
  std::ifstream stream(file, std::ios::binary);
  setup.request.run_file_text = {std::istreambuf_iterator<char>(stream), {}};
  setup.request.run_file = file.stem().string() + ".toml";
  if (setup.request.run_file.starts_with('.')) setup.request.run_file.insert(0, "run");
  setup.setup_commands = config->launch.setup;
  setup.needs_trainer = request.on != "local";
  // Ctrl-C's signal: saved, and "stopped" in the run's records.
  setup.request.stop_signal = SIGINT;
  std::vector<std::string>& words = setup.request.command;
  words = {"--run", request.train.run.empty() ? "runs/" + request.name : request.train.run};
  for (const std::string& assignment : request.train.assignments) {
    words.insert(words.end(), {"--set", assignment});
  }
  const int64_t ranks = std::max<int64_t>(
      1, request.ranks > 0 ? request.ranks : setup.run.machines.front().machine.ranks);
  if (ranks > 1) words.insert(words.end(), {"--ranks", std::to_string(ranks)});
  setup.run.run = words[1];
  setup.run.command = {"tern", "train", setup.request.run_file};
  setup.run.command.insert(setup.run.command.end(), words.begin(), words.end());
  return {};
}

void describe_program(const Request& request, LaunchSetup& setup) {
  setup.request.command = request.program;
  setup.request.stop_signal = SIGTERM;
  setup.run.command = request.program;
  setup.run.run = request.train.run;
  if (!request.train.run.empty()) setup.request.environment["TERN_RUN"] = request.train.run;
}

Result<LaunchSetup> make_setup(Request& request, const Surroundings& surroundings, Clock& clock) {
  LaunchSetup setup{.executable = surroundings.executable,
                    .cache = surroundings.cache,
                    .version = TERN_VERSION,
                    .ssh = ssh_setup(surroundings)};
  setup.run.name = request.name;
  ASSIGN_OR_RETURN(const std::vector<FleetMachine> machines,
                   choose_machines(request, surroundings, clock));
  for (const FleetMachine& machine : machines) setup.run.machines.push_back({.machine = machine});
  if (request.is_program()) {
    describe_program(request, setup);
  } else {
    RETURN_IF_ERROR(describe_training(request, surroundings, setup));
  }
  if (request.on == "local") {
    std::error_code error;
    setup.request.folder = fs::current_path(error).string();
  } else {
    const std::vector<Recipe> recipes = surroundings.list_recipes();
    ASSIGN_OR_RETURN(setup.bundle,
                     bundle_files(surroundings.executable,
                                  recipes.empty() ? fs::path() : recipes[0].path.parent_path()));
  }
  setup.tell = [](const std::string& sentence) {
    write_stderr(fmt::format("tern: {}\n", sentence));
  };
  return setup;
}

// Shows the logs until the run has ended everywhere; Ctrl-C leaves it running.
Result<int> follow(const OpenedRun& opened, Clock& clock, const Interruptible& interruptible) {
  LogWish wish{.follow = true};
  for (size_t i = 0; i < opened.run.machines.size(); ++i) wish.machines.push_back(i);
  RETURN_IF_ERROR(print_logs(opened, wish, clock, interruptible.stop_token()));
  if (interruptible.stop_token().stop_requested()) {
    write_stderr(
        fmt::format("tern: {0} goes on; `tern logs {0} -f` shows it again, `tern stop "
                    "{0}` stops it\n",
                    opened.run.name));
    return kExitDone;
  }
  int exit_code = kExitDone;
  for (const nlohmann::json& state : ask_all_states(opened.run, opened.shells)) {
    write_stderr(fmt::format("tern: {}: {}\n", text_in(state, "name"), describe_state(state)));
    const int64_t code = number_in(state, "exit_code", kExitUnavailable);
    if (exit_code == kExitDone) exit_code = static_cast<int>(code < 0 ? 128 - code : code);
  }
  return exit_code;
}

}  // namespace

Result<int> launch_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  CLI::App app;
  add_flags(app, request);
  const auto dashes = std::ranges::find(arguments, "--");
  ASSIGN_OR_RETURN(const bool is_help,
                   parse_or_help(app, {arguments.begin(), dashes}, "tern launch", kHelp));
  if (is_help) return kExitDone;
  if (dashes != arguments.end()) request.program.assign(dashes + 1, arguments.end());
  RETURN_IF_ERROR(check_request(request));
  SystemClock clock;
  ASSIGN_OR_RETURN(const LaunchedRuns runs, open_launched_runs(surroundings));
  ASSIGN_OR_RETURN(const LaunchSetup setup, make_setup(request, surroundings, clock));
  ASSIGN_OR_RETURN(const auto interruptible, Interruptible::start(clock));
  Result<LaunchedRun> run = launch(setup, runs, clock, interruptible->stop_token());
  if (!run) {
    const auto code = interruptible->exit_code(run.error(), "nothing of it was left running");
    if (code) return *code;
    return run.error();
  }
  fmt::print("{} runs on {} machine{}; `tern status {}` shows it\n", run->name,
             run->machines.size(), run->machines.size() == 1 ? "" : "s", run->name);
  std::fflush(stdout);
  if (request.detach) return kExitDone;
  std::vector<MachineShell> shells = open_shells(*run, setup.ssh, clock);
  return follow({std::move(*run), std::move(shells)}, clock, *interruptible);
}

}  // namespace tern
