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

  tern launch FILE --name X [--on local|ssh|slurm] [--hosts H] [--run URI]
              [--machines K] [--spares S] [--ranks-per-machine R]
              [--set key=value]... [--slurm OPTION]... [--detach]
  tern launch --name X [...] [--run URI] -- PROGRAM [WORD]...

  FILE              a run file or recipe; it is sent along. Its launch.setup
                    commands run first, once on each machine
  -- PROGRAM        any program instead, with torchrun's variables: it starts
                    again when a rank dies, and what it saves in the folder
                    $TERN_CHECKPOINT_DIR is kept in --run (docs/launch.md)
  --name X          what `tern status X`, logs, connect, stop, preempt and down
                    know it by, from any terminal of this machine
  --on ssh          not given: ssh with --hosts, else local (this machine);
                    slurm: a job of sbatch, with launch.slurm's options
  --hosts H         a TOML file, the instances.json of `aws ec2
                    describe-instances`, or names and patterns of ~/.ssh/config
                    as 'gpu-*' or a,b,user@10.0.0.7 (docs/launch.md)
  --machines K      use K of them; not given: all that are no spares
  --spares S        and S more that rest until one is lost; not given: those
                    that the hosts file calls spare
  --ranks-per-machine R   not given: as the hosts file says, or 1
  --run URI         where the run is kept, on the machines: s3://bucket/prefix
                    and the like, or a folder there, which several machines must
                    share. Not given: runs/X
  --set key=value   set one option, over the run file
  --slurm OPTION    one of sbatch's, as partition=gpu or gres=gpu:4, after those
                    of the run file's launch.slurm
  --leave-port-free
                    a PROGRAM listens at MASTER_PORT, or at a port of its own;
                    not given: tern keeps the store there by which PyTorch's
                    ranks meet
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
  int64_t spares = -1;  // as the hosts file says
  int64_t ranks = 0;
  std::vector<std::string> slurm;
  bool detach = false;
  bool leaves_port_free = false;
  std::vector<std::string> program;

  bool is_program() const { return !program.empty(); }
};

void add_flags(CLI::App& app, Request& request) {
  app.add_option("FILE", request.train.file);
  app.add_option("--name", request.name);
  app.add_option("--on", request.on)->check(CLI::IsMember({"local", "ssh", "slurm"}));
  app.add_option("--hosts", request.hosts);
  app.add_option("--machines", request.machines)->check(CLI::Range(1, 1000));
  app.add_option("--spares", request.spares)->check(CLI::Range(0, 1000));
  app.add_option("--ranks-per-machine", request.ranks)->check(CLI::Range(1, 1024));
  app.add_option("--run", request.train.run);
  app.add_option("--set", request.train.assignments)->allow_extra_args(false);
  app.add_option("--slurm", request.slurm)->allow_extra_args(false);
  app.add_flag("--detach", request.detach);
  app.add_flag("--leave-port-free", request.leaves_port_free);
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
  if (request.is_program() && !request.train.assignments.empty()) {
    return fail(Code::invalid,
                fmt::format("--set {} is for a run file, and a program has none; give it its own "
                            "words after `--`",
                            request.train.assignments.front()));
  }
  if (request.leaves_port_free && !request.is_program()) {
    return fail(Code::invalid, "--leave-port-free is for `-- PROGRAM`; leave it out");
  }
  if (request.on.empty()) request.on = request.hosts.empty() ? "local" : "ssh";
  if ((request.on == "ssh") == request.hosts.empty()) {
    return fail(Code::invalid, request.hosts.empty()
                                   ? "on which machines? Add --hosts; see `tern launch --help`"
                                   : "--hosts is for --on ssh; leave out one of the two");
  }
  if (!request.slurm.empty() && request.on != "slurm") {
    return fail(Code::invalid, "--slurm is for --on slurm; leave it out, or add that");
  }
  return {};
}

Result<std::vector<FleetMachine>> choose_machines(const Request& request,
                                                  const Surroundings& surroundings, Clock& clock) {
  const int64_t wanted = std::max<int64_t>(1, request.machines);
  std::vector<FleetMachine> machines;
  if (request.on == "slurm" && request.spares > 0) {
    return fail(Code::invalid, "Slurm's queue has the spares; leave out --spares");
  }
  if (request.on != "ssh") {
    const int64_t spares = std::max<int64_t>(0, request.spares);
    for (int64_t i = 0; i < wanted + spares; ++i) {
      machines.push_back({.name = fmt::format("{}-{}", request.on, i), .spare = i >= wanted});
    }
    return machines;
  }
  ASSIGN_OR_RETURN(machines, read_hosts(request.hosts, hosts_place(surroundings, clock)));
  // Machine numbers of spares come after those of all others.
  std::ranges::stable_sort(machines, {}, &FleetMachine::spare);
  const int64_t workers = std::ranges::count(machines, false, &FleetMachine::spare);
  if (workers < wanted) {
    return fail(Code::invalid,
                fmt::format("{} machines are asked for, and {} lists {} that are no spares", wanted,
                            request.hosts, workers));
  }
  const int64_t working = request.machines > 0 ? request.machines : workers;
  if (request.spares < 0) {
    machines.erase(machines.begin() + working, machines.begin() + workers);
    return machines;
  }
  if (std::ssize(machines) < working + request.spares) {
    return fail(Code::invalid,
                fmt::format("{} machines and {} spares are asked for, and {} lists "
                            "{} in all; for fewer add --machines",
                            working, request.spares, request.hosts, machines.size()));
  }
  machines.resize(static_cast<size_t>(working + request.spares));
  for (int64_t i = working; i < std::ssize(machines); ++i) {
    machines[static_cast<size_t>(i)].spare = true;
  }
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
  ASSIGN_OR_RETURN(const fs::path file, find_run_file(request.train.file, recipes));
  std::ifstream stream(file, std::ios::binary);
  setup.request.run_file_text = {std::istreambuf_iterator<char>(stream), {}};
  setup.request.run_file = file.stem().string() + ".toml";
  if (setup.request.run_file.starts_with('.')) setup.request.run_file.insert(0, "run");
  setup.run.setup = config->launch.setup;
  setup.slurm_options = config->launch.slurm;
  setup.needs_trainer = true;
  // Ctrl-C's signal: saved, and "stopped" in the run's records.
  setup.request.stop_signal = SIGINT;
  std::vector<std::string>& words = setup.request.command;
  if (request.train.run.empty()) request.train.run = "runs/" + request.name;
  words = {"--run", request.train.run};
  ASSIGN_OR_RETURN(const StoreAddress place, run_place(request.train, *config));
  if (place.is_folder()) setup.run_folder = place.prefix;
  for (const std::string& assignment : request.train.assignments) {
    words.insert(words.end(), {"--set", assignment});
  }
  setup.run.run = words[1];
  setup.run.command = {"tern", "train", setup.request.run_file};
  setup.run.command.insert(setup.run.command.end(), words.begin(), words.end());
  return {};
}

Status describe_program(const Request& request, LaunchSetup& setup) {
  setup.request.command = request.program;
  setup.request.is_program = true;
  // Ctrl-C's signal, which `tern program` tells the program as a wish to stop.
  setup.request.stop_signal = SIGINT;
  setup.run.command = request.program;
  setup.run.run = request.train.run;
  if (request.leaves_port_free) setup.request.program_flags.emplace_back("--leave-port-free");
  if (request.train.run.empty()) return {};
  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(request.train.run));
  if (place.is_folder()) setup.run_folder = place.prefix;
  std::vector<std::string>& flags = setup.request.program_flags;
  flags.insert(flags.end(), {"--run", request.train.run});
  return {};
}

Result<LaunchSetup> make_setup(Request& request, const Surroundings& surroundings, Clock& clock) {
  LaunchSetup setup{.executable = surroundings.executable,
                    .cache = surroundings.cache,
                    .version = TERN_VERSION,
                    .ssh = ssh_setup(surroundings)};
  setup.run.name = request.name;
  ASSIGN_OR_RETURN(const std::vector<FleetMachine> machines,
                   choose_machines(request, surroundings, clock));
  for (const FleetMachine& machine : machines) {
    setup.run.machines.push_back({.machine = machine});
    if (request.ranks > 0) setup.run.machines.back().machine.ranks = request.ranks;
  }
  if (request.is_program()) {
    RETURN_IF_ERROR(describe_program(request, setup));
  } else {
    RETURN_IF_ERROR(describe_training(request, surroundings, setup));
  }
  for (const std::string& option : request.slurm) {
    setup.slurm_options.push_back(option.starts_with("-") ? option : "--" + option);
  }
  if (request.on != "ssh") {
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
  const std::vector<nlohmann::json> states = ask_states(opened);
  for (const nlohmann::json& state : states) {
    write_stderr(fmt::format("tern: {}: {}\n", text_in(state, "name"), describe_state(state)));
  }
  return outcome_of(states);
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
  const Result<LaunchedRun> run = request.on == "slurm"
                                      ? launch_by_slurm(setup, surroundings.state, runs, clock)
                                      : launch(setup, runs, clock, interruptible->stop_token());
  if (!run) {
    const auto code = interruptible->exit_code(run.error(), "nothing of it was left running");
    if (code) return *code;
    return run.error();
  }
  if (run->slurm_job != 0) write_stderr(fmt::format("tern: it is job {}\n", run->slurm_job));
  const size_t spares = run->machines.size() - run->working();
  fmt::print("{} runs on {} machine{}{}; `tern status {}` shows it\n", run->name, run->working(),
             run->working() == 1 ? "" : "s",
             spares == 0 ? "" : fmt::format(" (spares: {})", spares), run->name);
  std::fflush(stdout);
  if (request.detach) return kExitDone;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, run->name, clock));
  return follow(opened, clock, *interruptible);
}

}  // namespace tern
