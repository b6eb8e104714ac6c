#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/command.h"
#include "cli/fleet_door.h"
#include "cli/parse_or_help.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern connect: a shell on a machine of a launched run.

  tern connect X I               the machine's number or name; I is 0 if it is
                                 not given
  tern connect X I -- COMMAND    one command there instead

It is ssh itself, with your config: what it asks, you answer. For a job of Slurm
it is srun.
)";

}  // namespace

Result<int> connect_command(const Surroundings& surroundings, const Arguments& arguments) {
  std::string name;
  std::string machine = "0";
  CLI::App app;
  app.add_option("NAME", name);
  app.add_option("MACHINE", machine);
  const auto dashes = std::ranges::find(arguments, "--");
  ASSIGN_OR_RETURN(const bool is_help,
                   parse_or_help(app, {arguments.begin(), dashes}, "tern connect", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  ASSIGN_OR_RETURN(const OpenedRun opened, open_launched_run(surroundings, name, clock));
  ASSIGN_OR_RETURN(const size_t index, opened.run.find_machine(machine));
  const std::string script = dashes == arguments.end()
                                 ? ""
                                 : fmt::format("{}", fmt::join(dashes + 1, arguments.end(), " "));
  ASSIGN_OR_RETURN(std::vector<std::string> words,
                   opened.slurm != nullptr ? opened.slurm->shell(index, script)
                                           : opened.shells[index].interactive_command(script));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return fail(Code::not_found, fmt::format("{} cannot be started: {}; install the package "
                                           "openssh-client",
                                           words.front(), std::strerror(errno)));
}

}  // namespace tern
