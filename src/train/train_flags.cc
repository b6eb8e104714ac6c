#include "train/train_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

namespace tern {
namespace {

constexpr char kHelp[] = "tern train --help";

// "--stepz": the first thing that CLI11 could not place, and the flag it most likely is.
std::string explain_extra(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  for (const std::string& extra : extras) {
    if (!extra.starts_with('-')) continue;
    const std::string flag = extra.substr(0, extra.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    const std::optional<std::string> near = nearest_name(flag, known);
    return fmt::format("unknown flag {}{}", flag,
                       near ? fmt::format(" (did you mean {}?)", *near) : "");
  }
  return fmt::format("unexpected argument '{}'", extras.empty() ? "" : extras.front());
}

// CLI11's own checks answer in the language of doubles. Empty if the text is right.
std::string check_step_count(const std::string& text) {
  int64_t steps = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, steps);
  if (failure == std::errc{} && rest == end && steps >= 0) return "";
  return fmt::format("'{}' is no number of steps; write 0 or more", text);
}

std::string check_rank_count(const std::string& text) {
  int64_t ranks = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, ranks);
  if (failure == std::errc{} && rest == end && ranks >= 1 && ranks <= kRanksMax) return "";
  return fmt::format("'{}' is no number of ranks; write 1 to {}", text, kRanksMax);
}

// An unset variable of a script must not mean "not given".
std::string check_not_empty(const std::string& text) {
  return text.empty() ? "is given and empty; write a value, or leave the flag out" : "";
}

}  // namespace

void add_train_flags(CLI::App& app, TrainRequest& request) {
  app.add_option("FILE", request.file);
  app.add_option("--run", request.run)->check(check_not_empty);
  // One value each: a list that takes all it can get would also take FILE.
  app.add_option("--set", request.assignments)->allow_extra_args(false);
  app.add_option("--steps", request.steps)->check(check_step_count);
  app.add_option("--ranks", request.ranks)->check(check_rank_count);
  app.add_option("--halt-file", request.halt_file)->check(check_not_empty);
  app.add_option("--from", request.from)->check(check_not_empty);
  app.add_option("--init", request.init)->check(check_not_empty);
  app.add_option("--on-event", request.on_event)->check(check_not_empty);
  app.add_flag("--fresh", request.fresh);
  app.add_flag("--create", request.create);
}

Status parse_flags(CLI::App& app, const std::vector<std::string>& arguments,
                   std::string_view help) {
  const auto refuse = [help](std::string_view why) {
    return fail(Code::invalid, fmt::format("{}; see `{}`", why, help));
  };
  try {
    // CLI11 takes a vector from its end.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ExtrasError&) {
    return refuse(explain_extra(app));
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
  return {};
}

Result<TrainRequest> parse_train_flags(const std::vector<std::string>& arguments) {
  TrainRequest request;
  CLI::App app;
  app.set_help_flag();  // `tern train --help` answers before it comes to this
  add_train_flags(app, request);
  RETURN_IF_ERROR(parse_flags(app, arguments, kHelp));
  if (request.file.empty()) {
    return fail(Code::invalid, fmt::format("which run file or recipe? see `{}`", kHelp));
  }
  return request;
}

}  // namespace tern
