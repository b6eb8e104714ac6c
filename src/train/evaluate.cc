#include "train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dataset/plan.h"
#include "loader/loader.h"
#include "loader/view.h"

namespace tern {
namespace {

Plan evaluation_plan(const Dataset& data, const RunConfig& config) {
  const Plan plan(data.id(), data.size(), /*seed=*/0, config.train.evaluate_batch,
                  Order::sequential);
  if (!config.image.rectangular) return plan;
  return plan.with_order(std::make_shared<const std::vector<int64_t>>(order_by_aspect_ratio(data)));
}

// The sums over all ranks; nothing if one of them was interrupted.
Result<std::optional<EvaluationSums>> sum_over(Collectives& group, const EvaluationSums& own,
                                               bool is_interrupted, size_t classes) {
  std::vector<double> numbers = {is_interrupted ? 1.0 : 0.0, own.loss,
                                 static_cast<double>(own.top1), static_cast<double>(own.top5),
                                 static_cast<double>(own.samples)};
  const size_t first_class = numbers.size();
  numbers.resize(first_class + 2 * classes);
  for (size_t i = 0; i < std::min(classes, own.class_samples.size()); ++i) {
    numbers[first_class + i] = static_cast<double>(own.class_samples[i]);
    numbers[first_class + classes + i] = static_cast<double>(own.class_top1[i]);
  }
  ASSIGN_OR_RETURN(numbers, group.sum(std::move(numbers)));
  if (numbers[0] > 0) return std::optional<EvaluationSums>();
  // Counts are whole numbers, which doubles hold exactly.
  const auto whole = [&](size_t i) { return std::llround(numbers[i]); };
  EvaluationSums sums{.loss = numbers[1], .top1 = whole(2), .top5 = whole(3), .samples = whole(4)};
  for (size_t i = 0; i < classes; ++i) {
    sums.class_samples.push_back(whole(first_class + i));
    sums.class_top1.push_back(whole(first_class + classes + i));
  }
  return std::optional(std::move(sums));
}

Evaluation means_of(EvaluationSums total) {
  const auto samples = static_cast<double>(total.samples);
  std::vector<double> class_top1;
  for (size_t i = 0; i < total.class_samples.size(); ++i) {
    const auto seen = static_cast<double>(total.class_samples[i]);
    class_top1.push_back(seen > 0 ? static_cast<double>(total.class_top1[i]) / seen : 0);
  }
  return {.loss = total.loss / samples,
          .top1 = static_cast<double>(total.top1) / samples,
          .top5 = static_cast<double>(total.top5) / samples,
          .samples = total.samples,
          .class_samples = std::move(total.class_samples),
          .class_top1 = std::move(class_top1)};
}

}  // namespace

OnBadSample on_bad_sample(const DataOptions& options) {
  if (options.on_bad_sample == "skip") return OnBadSample::skip;
  if (options.on_bad_sample == "replace") return OnBadSample::replace;
  return OnBadSample::stop;
}

Result<std::optional<Evaluation>> evaluate(Learner& learner, const Dataset& data,
                                           const RunConfig& config, const NoticeBoard& board,
                                           Clock& clock,
                                           const std::function<Status()>& between_batches,
                                           const std::function<void(const BadRead&)>& on_bad,
                                           Collectives* group) {
  const Plan plan = evaluation_plan(data, config);
  // Nothing stands in here: every sample counts once, or not at all.
  const bool is_stop = on_bad_sample(config.data) == OnBadSample::stop;
  Loader loader({.dataset = &data,
                 .plan = &plan,
                 .options = config.loader,
                 .rank = group != nullptr ? group->rank() : 0,
                 .world = group != nullptr ? group->world() : 1,
                 .clock = &clock,
                 .image = config.image,
                 .is_evaluation = true,
                 .on_bad = is_stop ? OnBadSample::stop : OnBadSample::skip});
  EvaluationSums total;
  bool is_interrupted = false;
  for (int64_t batch = 0; batch < plan.batches_per_epoch() && !is_interrupted; ++batch) {
    Result<Batch> images = loader.next(board.stop_token());
    if (board.notice()) {
      is_interrupted = true;
      continue;
    }
    if (!images.has_value()) return images.error();
    for (const BadRead& bad : images->bad) on_bad(bad);
    if (images->samples() == 0) continue;
    RETURN_IF_ERROR(learner.put(*images));
    loader.recycle(std::move(*images));
    ASSIGN_OR_RETURN(const EvaluationSums sums, learner.evaluate());
    RETURN_IF_ERROR(between_batches());
    total += sums;
  }
  if (group != nullptr) {
    const auto classes = static_cast<size_t>(data.classes());
    ASSIGN_OR_RETURN(std::optional<EvaluationSums> sums,
                     sum_over(*group, total, is_interrupted, classes));
    is_interrupted = !sums.has_value();
    if (sums) total = std::move(*sums);
  }
  if (is_interrupted) return std::optional<Evaluation>();
  if (total.samples == 0) {
    return fail(Code::corrupt,
                fmt::format("no sample of {} could be read; check it with `tern data "
                            "verify`",
                            data.name()));
  }
  return std::optional(means_of(std::move(total)));
}

}  // namespace tern
