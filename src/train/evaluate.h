// Accuracy on the test data.
#pragma once

#include <functional>
#include <optional>

#include "core/result.h"
#include "dataset/dataset.h"
#include "preempt/notice.h"
#include "train/learner.h"
#include "train/run_config.h"
#include "train/run_records.h"

namespace tern {

// Means over all samples of `data`, each counted once. Nothing if a notice is posted meanwhile: an
// evaluation may take longer than a machine that is going has left. `between_batches` is called to
// keep the lease, which it may outlast too; its error ends the evaluation.
Result<std::optional<Evaluation>> evaluate(Learner& learner, const Dataset& data,
                                           const RunConfig& config, const NoticeBoard& board,
                                           const std::function<Status()>& between_batches);

}  // namespace tern
