#include "train/eval_mode.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "dataset/indexed_dataset.h"
#include "preempt/signal_watcher.h"
#include "train/evaluate.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

Error other_classes(const TrainedWeights& weights, const Dataset& data, const std::string& how) {
  return fail(Code::failed_precondition,
              fmt::format("the classes of {} are not those of {}: {}; give data with the same "
                          "classes in the same order, with --data",
                          data.name(), weights.name, how));
}

Status check_classes(const TrainedWeights& weights, const Dataset& data) {
  if (data.classes() != weights.classes) {
    return other_classes(
        weights, data,
        fmt::format("there are {} and it tells {} apart", data.classes(), weights.classes));
  }
  const std::vector<std::string> names = data.class_names();
  const size_t both = std::min(names.size(), weights.class_names.size());
  for (size_t i = 0; i < both; ++i) {
    if (names[i] == weights.class_names[i]) continue;
    return other_classes(
        weights, data,
        fmt::format("class {} is {} and was {}", i, names[i], weights.class_names[i]));
  }
  return {};
}

Result<std::unique_ptr<Dataset>> open_data(TrainedWeights& weights, const EvalRequest& request) {
  DataOptions& options = weights.config.data;
  if (!request.data.empty()) options.path = request.data;
  // An imported data set says itself how many it has, so that the difference can be told plainly.
  ASSIGN_OR_RETURN(const StoreAddress place, parse_store_address(options.path));
  const bool is_known = !place.is_folder() || is_imported(place.prefix);
  options.classes = is_known ? 0 : weights.classes;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                   open_dataset(options, request.split == "train" ? Split::train : Split::test));
  RETURN_IF_ERROR(check_classes(weights, *data));
  return data;
}

Result<ImageShape> shape_of(const TrainedWeights& weights, const Dataset& data) {
  ImageShape shape = data.shape();
  const int64_t size = weights.config.image.size;
  if (size > 0) shape.height = shape.width = size;
  if (shape.channels != weights.channels) {
    return fail(Code::failed_precondition,
                fmt::format("the images of {} have {} colour channels and {} was trained on {}; "
                            "give data of the same kind, with --data",
                            data.name(), shape.channels, weights.name, weights.channels));
  }
  if (shape.height > 0 && shape.width > 0) return shape;
  return fail(Code::invalid,
              fmt::format("the images of {} have many sizes; say at which side in pixels they are "
                          "to be seen, for example --set image.size=224",
                          data.name()));
}

nlohmann::json to_json(const TrainedWeights& weights, const Dataset& data,
                       const EvalRequest& request, const Evaluation& result, int64_t bad) {
  nlohmann::json classes = nlohmann::json::array();
  for (size_t i = 0; i < result.class_samples.size(); ++i) {
    nlohmann::json row = {{"label", i}, {"samples", result.class_samples[i]}};
    if (i < weights.class_names.size()) row["name"] = weights.class_names[i];
    row["top1"] = nullptr;
    if (result.class_samples[i] > 0) row["top1"] = result.class_top1[i];
    classes.push_back(std::move(row));
  }
  nlohmann::json json = {{"weights", weights.name},   {"data", data.name()},
                         {"data_id", data.id()},      {"split", request.split},
                         {"samples", result.samples}, {"bad_samples", bad},
                         {"loss", result.loss},       {"top1", result.top1},
                         {"top5", result.top5},       {"classes", std::move(classes)}};
  if (weights.number >= 0) {
    json["checkpoint"] = weights.number;
    json["step"] = weights.step;
  } else {
    json["sha256"] = weights.sha256;
  }
  return json;
}

std::string per_class_text(const TrainedWeights& weights, const Evaluation& result) {
  std::string text;
  for (size_t i = 0; i < result.class_samples.size(); ++i) {
    text += fmt::format("  {:>8}  ", format_count(result.class_samples[i]));
    text += result.class_samples[i] > 0 ? fmt::format("{:6.2f} %", 100 * result.class_top1[i])
                                        : std::string("       -");
    text += fmt::format("  {}\n", class_name(weights, static_cast<int64_t>(i)));
  }
  return "\n   samples    top-1  class\n" + text;
}

std::string to_text(const TrainedWeights& weights, const Dataset& data, const EvalRequest& request,
                    const Evaluation& result, int64_t bad) {
  std::string text = weights.name;
  if (weights.step >= 0) text += fmt::format(" at step {}", weights.step);
  text += fmt::format(" on {}\n", data.name());
  text += fmt::format("samples  {}{}\n", format_count(result.samples),
                      bad > 0 ? fmt::format(", and {} that could not be read", bad) : "");
  text += fmt::format("top-1    {:.2f} %\n", 100 * result.top1);
  text += fmt::format("top-5    {:.2f} %\n", 100 * result.top5);
  text += fmt::format("loss     {:.4f}\n", result.loss);
  if (request.per_class) text += per_class_text(weights, result);
  return text;
}

Result<std::optional<Evaluation>> evaluate_all(Learner& learner, const Dataset& data,
                                               const RunConfig& config, const NoticeBoard& board,
                                               const EvalProcess& process, int64_t& bad_samples) {
  Progress progress(*process.log, *process.clock,
                    {.what = "evaluate", .unit = "samples", .total = data.size()});
  int64_t done = 0;
  return evaluate(
      learner, data, config, board, *process.clock,
      [&]() -> Status {
        done = std::min(data.size(), done + config.train.evaluate_batch);
        progress.update(done);
        return {};
      },
      [&](const BadRead& bad) {
        ++bad_samples;
        process.log->warn("eval", "a sample could not be read and does not count",
                          {{"sample", bad.where}, {"cause", bad.cause}});
      });
}

}  // namespace

Result<int> eval_mode(const EvalProcess& process, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const EvalRequest request, parse_eval_flags(arguments));
  NoticeBoard board;
  ASSIGN_OR_RETURN(const auto signals, SignalWatcher::start(board, *process.clock,
                                                            [] { _exit(kExitInterruptedTwice); }));
  ASSIGN_OR_RETURN(TrainedWeights weights, open_trained_weights(request.weights, process));
  if (request.batch > 0) weights.config.train.evaluate_batch = request.batch;
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, open_data(weights, request));
  ASSIGN_OR_RETURN(const ImageShape shape, shape_of(weights, *data));
  if (weights.class_names.empty()) weights.class_names = data->class_names();
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, make_learner(weights, shape, process));
  int64_t bad = 0;
  ASSIGN_OR_RETURN(const std::optional<Evaluation> result,
                   evaluate_all(*learner, *data, weights.config, board, process, bad));
  if (!result) {
    const std::optional<Notice> notice = board.notice();
    const bool is_preempt = notice && notice->kind == NoticeKind::preempt;
    return is_preempt ? kExitPreempted : kExitStopped;
  }
  if (request.json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    RETURN_IF_ERROR(print_answer(
        to_json(weights, *data, request, *result, bad).dump(2, ' ', false, replace) + "\n"));
  } else {
    RETURN_IF_ERROR(print_answer(to_text(weights, *data, request, *result, bad)));
  }
  return kExitDone;
}

}  // namespace tern
