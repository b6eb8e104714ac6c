// The options explained for people, on a terminal and as a page.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace tern {
namespace {

constexpr size_t kColumnsMax = 80;
constexpr std::string_view kIndent = "      ";

constexpr std::string_view kPageHead =
    R"(# Configuration

Every option of a run, with its default. An option goes into the run file, under its section,

    [optimizer]
    learning_rate = 0.05

or on the command line, which wins: `tern train FILE --set optimizer.learning_rate=0.05`.
`tern init RECIPE` prints a complete run file to edit; `tern train --options` prints this list on a
terminal. Lengths of time are written "30s", "5m", "1.5h", or as a number of seconds.

"On resume" says whether a run that is continued may have another value than the one it began with.
"Across ranks" says whether every rank of a run must have the same one.

This page is made by `tern docs configuration > docs/configuration.md`; a test holds it true.

)";

// Breaks text at spaces into indented lines.
std::string wrap(std::string_view text) {
  std::string lines;
  std::string line;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && kIndent.size() + line.size() + 1 + word.size() > kColumnsMax) {
      lines += fmt::format("{}{}\n", kIndent, line);
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines += fmt::format("{}{}\n", kIndent, line);
  return lines;
}

}  // namespace

std::string format_option_help(const OptionSet& set) {
  std::string text;
  for (const OptionSet::Entry& entry : set.entries()) {
    text += fmt::format("  {} = {}\n", entry.key, to_toml_value(entry.field));
    std::string help = entry.rules.help;
    const std::string allowed = allowed_values(entry);
    if (!allowed.empty()) help += fmt::format(" Allowed: {}.", allowed);
    if (entry.rules.on_resume == OnResume::may_change) help += " May change on resume.";
    text += wrap(help);
  }
  return text;
}

std::string configuration_page() {
  RunConfig defaults;
  return std::string(kPageHead) + describe_run(defaults).to_markdown();
}

}  // namespace tern
