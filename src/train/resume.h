// Deciding whether a run folder holds this run, and from where it goes on.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/log.h"
#include "core/result.h"
#include "storage/object_store.h"
#include "storage/sequence.h"
#include "train/run_config.h"
#include "train/train_state.h"

namespace tern {

// Adopts what a run fixed when it began (its thread count, where the user left that open), then
// refuses if an option that may not change has another value than `recorded_toml`'s; both values
// are named. Returns what did change and may.
Result<std::vector<OptionChange>> agree_with_recorded(RunConfig& config,
                                                      const std::string& recorded_toml);

// The same with the run folder's run.toml, if there is one. Reads only.
Status agree_with_run_folder(RunConfig& config, ObjectStore& run);

// What Sequence::take() calls when it begins to wait for a holder elsewhere.
std::function<void(const Holder&, Milliseconds)> log_waiting_for_holder(Log& log);

// Where a run goes on.
struct ResumePoint {
  CheckpointText text;
  FoundCheckpoint checkpoint;
};

// The newest checkpoint that verifies and can be understood, if there is one; damaged ones are
// named in `warnings`. `checkpoints` is the run's checkpoints/.
Result<std::optional<ResumePoint>> find_resume_point(ObjectStore& checkpoints,
                                                     std::vector<std::string>& warnings);

}  // namespace tern
