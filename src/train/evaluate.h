// Accuracy on the test data.
#pragma once

#include <functional>
#include <optional>

#include "core/result.h"
#include "dataset/dataset.h"
#include "loader/loader.h"
#include "preempt/notice.h"
#include "train/learner.h"
#include "train/run_config.h"
#include "train/run_records.h"

namespace tern {

// Means over all samples of `data`, each counted once. Nothing if a notice is posted meanwhile: an
// evaluation may take longer than a machine that is going has left. `between_batches` is called to
// keep the lease, which it may outlast too; its error ends the evaluation.
// `on_bad` is told of samples that could not be read, as data.on_bad_sample says. With a group each
// rank takes its share of every batch, and all get the same result; if one of them has a notice,
// none gets any.
Result<std::optional<Evaluation>> evaluate(Learner& learner, const Dataset& data,
                                           const RunConfig& config, const NoticeBoard& board,
                                           Clock& clock,
                                           const std::function<Status()>& between_batches,
                                           const std::function<void(const BadRead&)>& on_bad,
                                           Collectives* group = nullptr);

// data.on_bad_sample as the loader takes it.
OnBadSample on_bad_sample(const DataOptions& options);

}  // namespace tern
