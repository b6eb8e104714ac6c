#include "cli/parse_or_help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "train/train_flags.h"

namespace tern {

Result<bool> parse_or_help(CLI::App& app, const Arguments& arguments, std::string_view name,
                           std::string_view help) {
  bool is_asked = false;
  app.set_help_flag();
  app.add_flag("-h,--help", is_asked);
  RETURN_IF_ERROR(parse_flags(app, arguments, fmt::format("{} --help", name)));
  if (is_asked) fmt::print("{}", help);
  return is_asked;
}

}  // namespace tern
