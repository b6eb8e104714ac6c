#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/copy_progress.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern logs: what a launched run has said on its machines.

  tern logs X                the whole log of each machine, after its name
  tern logs X -f, --follow   and what it says from now on, until it has ended;
                             Ctrl-C leaves the run alone
  tern logs X --machine I    of one machine, by its number or its name

The log is on the machine, and goes with `tern down X`.
)";

}  // namespace

Result<int> logs_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  std::string machine;
  bool follow = false;
  CLI::App app;
  app.add_option("NAME", name);
  app.add_option("--machine", machine);
  app.add_flag("-f,--follow", follow);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern logs", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  LogWish wish{.follow = follow};
  if (!machine.empty()) {
    ASSIGN_OR_RETURN(const size_t index, opened.run.find_machine(machine));
    wish.machines.push_back(index);
  } else {
    for (size_t i = 0; i < opened.run.machines.size(); ++i) wish.machines.push_back(i);
  }
  ASSIGN_OR_RETURN(const auto interruptible, Interruptible::start(clock));
  RETURN_IF_ERROR(print_logs(opened, wish, clock, interruptible->stop_token()));
  return kExitDone;
}

}  // namespace tern
