// The commands of `tern` and their flags, once: main() starts the commands from it, completion is
// generated from it, and a test holds it to what each command parses.
#pragma once

#include <span>
#include <string_view>

#include "cli/command.h"

namespace tern {

// What follows a flag, or stands alone after a command's name.
enum class Takes {
  nothing,
  text,      // anything: nothing is offered
  run,       // a run's name, or its folder
  run_file,  // a recipe's name, or a .toml file
  launched,  // the name of a launched run
  recipe,
  option,  // key=value
  file,
  folder,
  shell,    // bash or zsh
  command,  // a command of `tern`
};

struct Flag {
  std::string_view name;  // "--run"
  std::string_view what;  // a few words
  Takes takes = Takes::nothing;
  bool hidden = false;
};

struct Command {
  std::string_view name;
  std::string_view what;
  Result<int> (*run)(const Surroundings&, const Arguments&);
  Takes takes = Takes::nothing;
  std::span<const Flag> flags;  // without -h and --help, which all have
  bool hidden = false;
  std::span<const Command> subcommands = {};  // `tern data ls`; it takes nothing else then
};

// Lives as long as the program.
std::span<const Command> command_table();
// Those of `tern data`, `tern store` and `tern run`.
std::span<const Command> data_command_table();
std::span<const Command> store_command_table();
std::span<const Command> run_command_table();

}  // namespace tern
