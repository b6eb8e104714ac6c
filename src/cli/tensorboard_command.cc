// `tern tensorboard`: becomes the TensorBoard that is installed, on the runs' curves.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/command.h"
#include "report/event_file.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

extern char** environ;  // POSIX declares it nowhere

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHelp =
    R"(tern tensorboard: look at the curves of runs in TensorBoard.

  tern tensorboard              all runs in runs/
  tern tensorboard DIR...       these: run folders, or names of runs in runs/
  tern tensorboard --port N     on another port of this machine than 6006
  tern tensorboard --print      print the command that would be started

It becomes the TensorBoard that is installed here; open the address that it
prints, and end it with Ctrl-C. Where there is none: `pip install tensorboard`.
It can be reached from this machine only. To look from another one:
`ssh -L 6006:localhost:6006 THIS-MACHINE`, then http://localhost:6006 there.

Curves: loss, top-1, lr, throughput, the seconds of a step by span, validation,
and what the machine used (system/...). A run that is training can be looked at;
its points come every few seconds. docs/observe.md says what each curve is.
)";

constexpr char kPort[] = "6006";

struct ShownRun {
  std::string name;
  fs::path folder;  // of its event files
};

// The run's curves under its name, or under what was typed if two have the same.
Result<std::vector<ShownRun>> find_runs(const Arguments& names) {
  std::vector<ShownRun> runs;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const fs::path run, parse_run_folder(name));
    std::error_code error;
    if (!fs::is_directory(run, error)) {
      return fail(Code::not_found, fmt::format("no run folder {}; `tern ls` shows the runs that "
                                               "are here",
                                               run.string()));
    }
    const fs::path folder = run / kTensorBoardFolder;
    if (!fs::is_directory(folder, error)) {
      return fail(Code::not_found,
                  fmt::format("{} has no curves: it has not begun to train, or was trained by an "
                              "older tern; `tern report {}` tells what is known of it",
                              run.string(), name));
    }
    std::string shown = (run.has_filename() ? run : run.parent_path()).filename().string();
    const bool is_taken = std::ranges::find(runs, shown, &ShownRun::name) != runs.end();
    runs.push_back({is_taken ? run.string() : std::move(shown), folder});
  }
  return runs;
}

// TensorBoard's option for several folders has no way to write a comma or a colon in one.
Result<std::string> folders_option(const std::vector<ShownRun>& runs) {
  if (runs.empty()) return std::string("--logdir=runs");
  std::string option = "--logdir_spec=";
  for (const ShownRun& run : runs) {
    const std::string entry = run.name + run.folder.string();
    const bool is_plain = entry.find_first_of(",:") == std::string::npos;
    if (!is_plain && runs.size() == 1) return "--logdir=" + run.folder.string();
    if (!is_plain) {
      return fail(Code::invalid, fmt::format("TensorBoard cannot show {} beside others, because of "
                                             "the ',' or ':' in it; give it alone",
                                             run.folder.parent_path().string()));
    }
    if (&run != &runs.front()) option += ',';
    option += run.name + ":" + run.folder.string();
  }
  return option;
}

// For exec and spawn, which want it so. The texts outlive the pointers.
std::vector<char*> pointers_to(Arguments& arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Whether this Python has TensorBoard, though no program of that name is on the path.
bool python_has_tensorboard() {
  Arguments question = {"python3", "-c",
                        "import importlib.util as u, sys; "
                        "sys.exit(0 if u.find_spec('tensorboard') else 1)"};
  pid_t child = 0;
  if (posix_spawnp(&child, "python3", nullptr, nullptr, pointers_to(question).data(), environ) !=
      0) {
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Returns only if it fails.
Error become_tensorboard(const Arguments& options) {
  Arguments program = {"tensorboard"};
  program.insert(program.end(), options.begin(), options.end());
  execvp(program.front().c_str(), pointers_to(program).data());
  if (errno != ENOENT && errno != EACCES) {
    return fail(Code::unavailable, fmt::format("cannot start tensorboard: {}; does it start "
                                               "without tern?",
                                               std::strerror(errno)));
  }
  if (python_has_tensorboard()) {
    program = {"python3", "-m", "tensorboard.main"};
    program.insert(program.end(), options.begin(), options.end());
    execvp(program.front().c_str(), pointers_to(program).data());
  }
  return fail(Code::not_found,
              "TensorBoard is not installed here; `pip install tensorboard` installs it, also into "
              "a virtual environment: `python3 -m venv ~/tb && ~/tb/bin/pip install tensorboard`, "
              "then PATH=~/tb/bin:$PATH");
}

}  // namespace

Result<int> tensorboard_command(const Surroundings&, const Arguments& arguments) {
  bool help = false;
  bool print = false;
  std::string port = kPort;
  Arguments names;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--print", print);
  app.add_option("--port", port)->check(CLI::Range(1, 65'535));
  app.add_option("DIR", names);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern tensorboard --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  std::error_code error;
  if (names.empty() && !fs::is_directory("runs", error)) {
    return fail(Code::not_found,
                "there is no runs/ here; give the folder of a run, or begin one "
                "with `tern train RECIPE`");
  }
  ASSIGN_OR_RETURN(const std::vector<ShownRun> runs, find_runs(names));
  ASSIGN_OR_RETURN(std::string folders, folders_option(runs));
  // Loopback only: whoever can reach it may read every curve, and it asks for no password.
  const Arguments options = {std::move(folders), "--host=127.0.0.1", "--port=" + port};
  if (print) {
    fmt::print("tensorboard {}\n", fmt::join(options, " "));
    return kExitDone;
  }
  return become_tensorboard(options);
}

}  // namespace tern
