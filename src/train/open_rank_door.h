// Whether this process is one rank of several, and the way to the others.
#pragma once

#include <memory>

#include "core/clock.h"
#include "core/metadata_endpoint.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "train/rank_door.h"

namespace tern {

// By the environment: of a supervisor of ours, or of torchrun. Null: it trains alone. The board and
// the clock outlive the door.
Result<std::unique_ptr<RankDoor>> open_rank_door(const VariableReader& variable, NoticeBoard& board,
                                                 Clock& clock);

}  // namespace tern
