#include "train/plan_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "report/price.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr char kHelp[] = "tern plan --help";

// CLI11 shows what a check returns; empty means that the text is right.
std::string check_price(const std::string& text) {
  const Result<int64_t> price = parse_price(text);
  return price.has_value() ? "" : price.error().message;
}

}  // namespace

void add_plan_flags(CLI::App& app, PlanRequest& request) {
  app.add_option("FILE", request.run.file);
  // One value each: a list that takes all it can get would also take FILE.
  app.add_option("--set", request.run.assignments)->allow_extra_args(false);
  app.add_flag("--probe", request.probe);
  app.add_option("--price", request.price)->check(check_price);
  app.add_flag("--json", request.json);
}

Result<PlanRequest> parse_plan_flags(const std::vector<std::string>& arguments) {
  PlanRequest request;
  CLI::App app;
  app.set_help_flag();  // `tern plan --help` answers before it comes to this
  add_plan_flags(app, request);
  RETURN_IF_ERROR(parse_flags(app, arguments, kHelp));
  if (request.run.file.empty()) {
    return fail(Code::invalid, fmt::format("which run file or recipe? see `{}`", kHelp));
  }
  return request;
}

}  // namespace tern
