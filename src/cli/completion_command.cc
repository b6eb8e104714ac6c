#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/completion_script.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern completion: print a script that completes commands, flags, recipes, options
and the names of runs with the Tab key.

bash, now and in every later shell:
  source <(tern completion bash)
  mkdir -p ~/.local/share/bash-completion/completions
  tern completion bash > ~/.local/share/bash-completion/completions/tern

zsh, the same (after `compinit`; the folder must be in $fpath):
  source <(tern completion zsh)
  tern completion zsh > "${fpath[1]}/_tern"
)";

}  // namespace

Result<int> completion_command(const Surroundings&, const Arguments& arguments) {
  bool help = false;
  std::string shell;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_option("SHELL", shell);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern completion --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (shell != "bash" && shell != "zsh") {
    return fail(Code::invalid,
                shell.empty()
                    ? "for which shell? write `tern completion bash` or `tern completion zsh`"
                    : fmt::format("there is completion for bash and zsh, none for {}; see `tern "
                                  "completion --help`",
                                  shell));
  }
  fmt::print("{}", shell == "bash" ? bash_completion() : zsh_completion());
  return kExitDone;
}

}  // namespace tern
