// Opening a run where it is, a folder or a bucket, and what a bucket must be for it. No LibTorch:
// shared by `tern` and `tern-train`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cloud/open_store.h"
#include "core/result.h"
#include "dataset/options.h"
#include "storage/object_store.h"

namespace tern {

// There while a run is being copied here or removed from here; says so, and what to do. A kill
// leaves it, so that half a run is never taken for one.
inline constexpr char kUnfinishedObject[] = "unfinished.txt";
// In a bucket: that create-only writes were tried and work, and where. A copy of the run elsewhere
// holds another place's, which does not count.
inline constexpr char kCreateOnlyObject[] = "create_only.txt";

// Does this store hold a run, surely enough to remove it? A ledger or a record of a sequence says
// so. Asks for two listings.
Result<bool> holds_run(ObjectStore& run);
// The same of names that were listed.
bool holds_run(const std::vector<ObjectInfo>& objects);

// The names in `objects` that no run writes: somebody else's. Of each only the first part, sorted.
std::vector<std::string> foreign_names(const std::vector<ObjectInfo>& objects);

// failed_precondition with what to do if the run is half copied or half removed.
Status refuse_unfinished(ObjectStore& run, const std::string& name);

// --fresh in a bucket, which has no way to move a run aside: failed_precondition, with the commands
// to type, if there is a run, or anything else that somebody may want to keep.
Status refuse_old_run(ObjectStore& run, const std::string& name);

// The store at `place`, for a run that is there. failed_precondition if it is half copied or half
// removed; for a bucket not_found, with what to try, if it holds no run. What a folder holds is
// left to whoever reads it.
Result<std::unique_ptr<ObjectStore>> open_run(CloudDoor& door, const StoreAddress& place);

// For DataOptions::open_store. The door outlives it and what it opens.
StoreOpener store_opener(CloudDoor& door);

enum class MissingBucket { refuse, create };

// Makes sure, before a run is trained at `place`, that a bucket keeps the promises that checkpoints
// rest on: tried once, by a few small objects that are gone afterwards, and remembered. Does
// nothing for a folder.
Status prepare_run_place(CloudDoor& door, const StoreAddress& place, ObjectStore& run,
                         MissingBucket missing);

}  // namespace tern
