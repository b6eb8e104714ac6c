#include "train/eval_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>

#include "train/train_flags.h"

namespace tern {
namespace {

constexpr char kEvalHelp[] = "tern eval --help";
constexpr char kPredictHelp[] = "tern predict --help";

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || rest != end) return std::nullopt;
  return number;
}

// CLI11's checks: empty if the text is right.
std::string check_not_empty(const std::string& text) {
  return text.empty() ? "is given and empty; write a value, or leave the flag out" : "";
}

std::string check_checkpoint(const std::string& text) {
  if (text == "best" || text == "last" || whole_number(text).value_or(-1) >= 0) return "";
  return fmt::format("'{}' is no checkpoint; write best, last or a step", text);
}

std::string check_split(const std::string& text) {
  if (text == "test" || text == "train") return "";
  return fmt::format("'{}' is no split; write test or train", text);
}

std::string check_count(const std::string& text) {
  const std::optional<int64_t> count = whole_number(text);
  if (count && *count >= 1 && *count <= 1'048'576) return "";
  return fmt::format("'{}' is no count; write a whole number from 1", text);
}

void add_weights_flags(CLI::App& app, WeightsRequest& request) {
  app.add_option("DIR", request.run);
  app.add_option("--init", request.init)->check(check_not_empty);
  app.add_option("--checkpoint", request.checkpoint)->check(check_checkpoint);
  // One value each: a list that takes all it can get would also take DIR.
  app.add_option("--set", request.assignments)->allow_extra_args(false);
}

Status check_weights(const WeightsRequest& request, std::string_view help) {
  if (request.run.empty()) {
    return fail(Code::invalid,
                fmt::format("of which run? `tern ls` lists those that are here; see `{}`", help));
  }
  if (!request.init.empty() && request.checkpoint != "last") {
    return fail(Code::invalid,
                "--init takes the weights of a file and --checkpoint those of a run; give one of "
                "them");
  }
  return {};
}

// Parses into a request of its own, as tern-train does; help was answered before it comes to this.
template <typename Request, typename AddFlags>
Result<Request> parse_all(const std::vector<std::string>& arguments, AddFlags add_flags,
                          std::string_view help) {
  Request request;
  CLI::App app;
  app.set_help_flag();
  add_flags(app, request);
  RETURN_IF_ERROR(parse_flags(app, arguments, help));
  RETURN_IF_ERROR(check_request(request));
  return request;
}

}  // namespace

BranchSource WeightsRequest::source(const StoreAddress& place) const {
  if (checkpoint == "last") return {.run = place, .which = BranchSource::Which::newest};
  if (checkpoint == "best") return {.run = place, .which = BranchSource::Which::best};
  return {.run = place,
          .which = BranchSource::Which::step,
          .step = whole_number(checkpoint).value_or(0)};
}

void add_eval_flags(CLI::App& app, EvalRequest& request) {
  add_weights_flags(app, request.weights);
  app.add_option("--data", request.data)->check(check_not_empty);
  app.add_option("--split", request.split)->check(check_split);
  app.add_option("--batch", request.batch)->check(check_count);
  app.add_flag("--json", request.json);
  app.add_flag("--per-class", request.per_class);
}

void add_predict_flags(CLI::App& app, PredictRequest& request) {
  add_weights_flags(app, request.weights);
  app.add_option("FILE", request.files);
  app.add_option("--top", request.top)->check(check_count);
  app.add_flag("--json", request.json);
}

Status check_request(const EvalRequest& request) {
  return check_weights(request.weights, kEvalHelp);
}

Status check_request(const PredictRequest& request) {
  RETURN_IF_ERROR(check_weights(request.weights, kPredictHelp));
  if (!request.files.empty()) return {};
  return fail(Code::invalid,
              fmt::format("which images? give files, or folders of them; see `{}`", kPredictHelp));
}

Result<EvalRequest> parse_eval_flags(const std::vector<std::string>& arguments) {
  return parse_all<EvalRequest>(arguments, add_eval_flags, kEvalHelp);
}

Result<PredictRequest> parse_predict_flags(const std::vector<std::string>& arguments) {
  return parse_all<PredictRequest>(arguments, add_predict_flags, kPredictHelp);
}

}  // namespace tern
