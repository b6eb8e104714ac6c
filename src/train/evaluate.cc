#include "train/evaluate.h"

#include "dataset/plan.h"
#include "loader/loader.h"

namespace tern {

Result<std::optional<Evaluation>> evaluate(Learner& learner, const Dataset& data,
                                           const RunConfig& config, const NoticeBoard& board,
                                           const std::function<Status()>& between_batches) {
  const Plan plan(data.id(), data.size(), /*seed=*/0, config.train.evaluate_batch,
                  Order::sequential);
  Loader loader({.dataset = &data, .plan = &plan, .options = config.loader});
  EvaluationSums total;
  for (int64_t batch = 0; batch < plan.batches_per_epoch(); ++batch) {
    const Result<Batch> images = loader.next(board.stop_token());
    if (board.notice()) return std::optional<Evaluation>();
    if (!images.has_value()) return images.error();
    RETURN_IF_ERROR(learner.put(*images));
    ASSIGN_OR_RETURN(const EvaluationSums sums, learner.evaluate());
    RETURN_IF_ERROR(between_batches());
    total.loss += sums.loss;
    total.top1 += sums.top1;
    total.top5 += sums.top5;
    total.samples += sums.samples;
  }
  const auto samples = static_cast<double>(total.samples);
  return std::optional<Evaluation>(Evaluation{.loss = total.loss / samples,
                                              .top1 = static_cast<double>(total.top1) / samples,
                                              .top5 = static_cast<double>(total.top5) / samples,
                                              .samples = total.samples});
}

}  // namespace tern
