#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "core/stdio.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern init: print a complete run file, every option explained, to edit.

  tern init fashion-mnist > my.toml    begin with this recipe
  tern train my.toml                   train what you made of it, into runs/my
  tern init                            the recipes to choose from

What you do not want to change you may delete: it then has the default that
`tern train --options` shows.
)";

}  // namespace

Result<int> init_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  TrainRequest request;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_option("RECIPE", request.file);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern init --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (request.file.empty()) return recipes_command(surroundings, {});

  std::vector<Problem> problems;
  Result<RunConfig> config = load_run_config(request, surroundings.list_recipes(), problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  if (!config) return config.error();
  // The copy is another run file: left empty, it takes the name of the file it is saved to, and its
  // runs do not meet the recipe's.
  config->recipe.clear();
  fmt::print("{}", describe_run(*config).to_toml(OptionSet::Comments::yes));
  return kExitDone;
}

}  // namespace tern
