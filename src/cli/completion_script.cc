#include "cli/completion_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "cli/command_table.h"
#include "train/run_config.h"

namespace tern {
namespace {

constexpr char kShells[] = "bash zsh";

// Candidates are compared by a loop: compgen -W would execute a run called '$(...)'.
constexpr std::string_view kBashHead =
    R"(# bash completion for tern, made by `tern completion bash`.
# Try it with:    source <(tern completion bash)
# Keep it with:   tern completion bash > ~/.local/share/bash-completion/completions/tern

# Adds the lines of stdin that begin with $cur. Each is quoted: names may hold any character.
_tern_add() {
  local word
  while IFS= read -r word; do
    if [[ -n $word && $word == "$cur"* ]]; then
      printf -v word %q "$word"
      COMPREPLY+=("$word")
    fi
  done
}

_tern_files() {
  compopt -o filenames 2>/dev/null
  local name
  while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen "$@" -- "$cur")
}

_tern_offer() {
  case $1 in
    run)
      if [[ $cur == */* ]]; then
        _tern_files -d
      else
        _tern_add < <("$tern" ls --names 2>/dev/null)
      fi ;;
    run_file)
      _tern_add < <("$tern" recipes --names 2>/dev/null)
      _tern_files -f -X '!*.toml'
      _tern_files -d ;;
    launched) _tern_add < <("$tern" status --names 2>/dev/null) ;;
    recipe) _tern_add < <("$tern" recipes --names 2>/dev/null) ;;
    file) _tern_files -f ;;
    folder) _tern_files -d ;;
    option)
      compopt -o nospace 2>/dev/null
      _tern_add < <(printf '%s=\n' $_tern_options) ;;
    words) shift; _tern_add < <(printf '%s\n' "$@") ;;
  esac
}

)";

constexpr std::string_view kBashTail = R"(  esac
  if [[ $cur == -* ]]; then takes="words $flags --help"; fi
  _tern_offer $takes
}
complete -F _tern tern
)";

constexpr std::string_view kZshHead = R"zsh(#compdef tern
# zsh completion for tern, made by `tern completion zsh`.
# Try it with:    source <(tern completion zsh)
# Keep it with:   tern completion zsh > "${fpath[1]}/_tern"

_tern_runs() {
  local -a runs
  runs=(${(f)"$(_call_program runs ${(q)tern} ls --names 2>/dev/null)"})
  compadd -a runs
  [[ $PREFIX == */* ]] && _files -/
}

_tern_launched() {
  local -a launched
  launched=(${(f)"$(_call_program launched ${(q)tern} status --names 2>/dev/null)"})
  compadd -a launched
}

_tern_recipes() {
  local -a recipes
  recipes=(${(f)"$(_call_program recipes ${(q)tern} recipes --names 2>/dev/null)"})
  compadd -a recipes
}

_tern_run_files() {
  _tern_recipes
  _files -g '*.toml'
}

)zsh";

constexpr std::string_view kZshTail = R"(      esac ;;
  esac
}

# Sourced: make it known. Found in $fpath: this is its first call.
if [[ $funcstack[1] == _tern ]]; then _tern "$@"; else compdef _tern tern; fi
)";

std::string option_keys(std::string_view separator) {
  RunConfig config;
  const OptionSet set = describe_run(config);
  std::vector<std::string> keys;
  for (const OptionSet::Entry& entry : set.entries()) keys.push_back(entry.key);
  return fmt::format("{}", fmt::join(keys, separator));
}

std::string command_names() {
  std::string names;
  for (const Command& command : command_table()) {
    if (!command.hidden) names += fmt::format("{} ", command.name);
  }
  return names;
}

// The word of _tern_offer for what is taken.
std::string bash_word(Takes takes) {
  switch (takes) {
    case Takes::nothing:
    case Takes::text: return "nothing";
    case Takes::run: return "run";
    case Takes::run_file: return "run_file";
    case Takes::launched: return "launched";
    case Takes::recipe: return "recipe";
    case Takes::option: return "option";
    case Takes::file: return "file";
    case Takes::folder: return "folder";
    case Takes::shell: return fmt::format("words {}", kShells);
    case Takes::command: return fmt::format("words {}", command_names());
  }
  return "nothing";
}

// The function that completes what is taken.
std::string zsh_action(Takes takes) {
  switch (takes) {
    case Takes::nothing:
    case Takes::text: return " ";
    case Takes::run: return "_tern_runs";
    case Takes::run_file: return "_tern_run_files";
    case Takes::launched: return "_tern_launched";
    case Takes::recipe: return "_tern_recipes";
    case Takes::option: return fmt::format("compadd -S \"\" -- {}=", option_keys("= "));
    case Takes::file: return "_files";
    case Takes::folder: return "_files -/";
    case Takes::shell: return fmt::format("({})", kShells);
    case Takes::command: return fmt::format("({})", command_names());
  }
  return " ";
}

// Text inside single quotes, where _arguments and _describe give ':', '[' and ']' a meaning.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == ':' || c == '[' || c == ']') {
      out += fmt::format("\\{}", c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string names_of(std::span<const Command> commands) {
  std::string names;
  for (const Command& command : commands) names += fmt::format("{} ", command.name);
  return names;
}

std::string bash_case(const Command& command) {
  if (!command.subcommands.empty()) {
    std::string text = fmt::format(
        "    {})\n      if ((COMP_CWORD == 2)); then _tern_offer words {}--help; return; fi\n"
        "      case ${{COMP_WORDS[2]}} in\n",
        command.name, names_of(command.subcommands));
    for (const Command& sub : command.subcommands) text += bash_case(sub);
    return text + "      esac\n      ;;\n";
  }
  std::string flags;
  std::string values;
  for (const Flag& flag : command.flags) {
    if (flag.hidden) continue;
    flags += fmt::format("{} ", flag.name);
    if (flag.takes == Takes::nothing) continue;
    values +=
        fmt::format("        {}) _tern_offer {}; return ;;\n", flag.name, bash_word(flag.takes));
  }
  std::string text = fmt::format("    {})\n      flags='{}' takes='{}'\n", command.name, flags,
                                 bash_word(command.takes));
  if (!values.empty()) text += fmt::format("      case $prev in\n{}      esac\n", values);
  return text + "      ;;\n";
}

std::string zsh_case(const Command& command) {
  if (!command.subcommands.empty()) {
    std::string text = fmt::format(
        "        {})\n          if ((CURRENT == 2)); then compadd -- {}--help; return; fi\n"
        "          shift words; ((CURRENT--))\n          case $words[1] in\n",
        command.name, names_of(command.subcommands));
    for (const Command& sub : command.subcommands) text += zsh_case(sub);
    return text + "          esac ;;\n";
  }
  std::string text = fmt::format("        {})\n          _arguments \\\n", command.name);
  for (const Flag& flag : command.flags) {
    if (flag.hidden) continue;
    text += fmt::format("            '{}[{}]", flag.name, zsh_text(flag.what));
    if (flag.takes != Takes::nothing) text += fmt::format(":value:{}", zsh_action(flag.takes));
    text += "' \\\n";
  }
  if (command.takes != Takes::nothing) {
    text += fmt::format("            '*:argument:{}' \\\n", zsh_action(command.takes));
  }
  return text + "            '--help[explain it]' ;;\n";
}

}  // namespace

std::string bash_completion() {
  std::string text(kBashHead);
  text += fmt::format("_tern_options='{}'\n\n", option_keys(" "));
  text += R"(_tern() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} tern=${COMP_WORDS[0]}
  local flags='' takes=nothing
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
)";
  text += fmt::format("    _tern_offer {} help --help --version\n    return\n  fi\n",
                      bash_word(Takes::command));
  text += "  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : command_table()) {
    if (!command.hidden) text += bash_case(command);
  }
  text += fmt::format("    help) takes='{}' ;;\n", bash_word(Takes::command));
  return text + std::string(kBashTail);
}

std::string zsh_completion() {
  std::string text(kZshHead);
  text += R"(_tern() {
  local tern=$words[1] state line
  local -a commands
  commands=(
)";
  for (const Command& command : command_table()) {
    if (command.hidden) continue;
    text += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.what));
  }
  text += R"(    'help:explain a command'
  )
  _arguments -C '--help[what tern does]' '--version[which one this is]' \
    '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $words[1] in
)";
  for (const Command& command : command_table()) {
    if (!command.hidden) text += zsh_case(command);
  }
  text += fmt::format("        help) _arguments '*:command:{}' ;;\n", zsh_action(Takes::command));
  return text + std::string(kZshTail);
}

}  // namespace tern
