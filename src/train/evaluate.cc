#include "train/evaluate.h"

#include <fmt/format.h>

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
                                           const std::function<void(const BadRead&)>& on_bad) {
  const Plan plan = evaluation_plan(data, config);
  // Nothing stands in here: every sample counts once, or not at all.
  const bool is_stop = on_bad_sample(config.data) == OnBadSample::stop;
  Loader loader({.dataset = &data,
                 .plan = &plan,
                 .options = config.loader,
                 .clock = &clock,
                 .image = config.image,
                 .is_evaluation = true,
                 .on_bad = is_stop ? OnBadSample::stop : OnBadSample::skip});
  EvaluationSums total;
  for (int64_t batch = 0; batch < plan.batches_per_epoch(); ++batch) {
    Result<Batch> images = loader.next(board.stop_token());
    if (board.notice()) return std::optional<Evaluation>();
    if (!images.has_value()) return images.error();
    for (const BadRead& bad : images->bad) on_bad(bad);
    if (images->samples() == 0) continue;
    RETURN_IF_ERROR(learner.put(*images));
    loader.recycle(std::move(*images));
    ASSIGN_OR_RETURN(const EvaluationSums sums, learner.evaluate());
    RETURN_IF_ERROR(between_batches());
    total += sums;
  }
  if (total.samples == 0) {
    return fail(Code::corrupt,
                fmt::format("no sample of {} could be read; check it with `tern data "
                            "verify`",
                            data.name()));
  }
  const auto samples = static_cast<double>(total.samples);
  std::vector<double> class_top1;
  for (size_t i = 0; i < total.class_samples.size(); ++i) {
    const auto seen = static_cast<double>(total.class_samples[i]);
    class_top1.push_back(seen > 0 ? static_cast<double>(total.class_top1[i]) / seen : 0);
  }
  return std::optional<Evaluation>(Evaluation{.loss = total.loss / samples,
                                              .top1 = static_cast<double>(total.top1) / samples,
                                              .top5 = static_cast<double>(total.top5) / samples,
                                              .samples = total.samples,
                                              .class_samples = std::move(total.class_samples),
                                              .class_top1 = std::move(class_top1)});
}

}  // namespace tern
