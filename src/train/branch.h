// Branching: a new run that begins with a checkpoint of another (--from DIR@STEP). The other run is
// only read, also while it is being trained.
#pragma once

#include <string_view>
#include <vector>

#include "core/result.h"
#include "storage/object_store.h"
#include "train/branch_source.h"
#include "train/resume.h"
#include "train/run_config.h"

namespace tern {

// The checkpoint that `source` names, whole and verified; `checkpoints` is the other run's
// checkpoints/. not_found lists the steps that are there, the nearest first. A damaged one is
// `corrupt`: it is named, and never replaced by another. Reads the records and one checkpoint's
// blobs. If the other run's retention drops it meanwhile, looks again, a few times.
Result<ResumePoint> find_branch_point(ObjectStore& checkpoints, const BranchSource& source);

// Adopts what the other run fixed when it began (its thread count, where `mine` leaves that open),
// then refuses, by name and with both values, what would make its position or weights meaningless:
// another data set (`dataset_id` is mine), train.batch, train.seed, or a network of another shape.
// Returns the other options that differ.
Result<std::vector<OptionChange>> check_branch(RunConfig& mine, std::string_view dataset_id,
                                               const CheckpointText& source);

}  // namespace tern
