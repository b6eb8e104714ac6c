// Removing a run from a bucket, where nothing can be moved aside first.
#pragma once

#include <string>
#include <vector>

#include "cloud/bucket.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// failed_precondition if the run cannot be removed: somebody trains it, or more than a run is
// there.
Status check_removable(ObjectStore& run, const std::string& name);

// Takes the run as a trainer would, marks it as unfinished (train/run_place.h), and removes all its
// objects, the mark last: what a kill leaves is never taken for a run, and the same call goes on.
// May wait for the run's lease. REQUIRES: check_removable().
Status remove_bucket_run(ObjectStore& run, const std::string& name, Clock& clock, Log& log);

// The unfinished uploads of `prefix` itself and of what is below it; empty: of the whole bucket.
Result<std::vector<OpenUpload>> uploads_below(Bucket& bucket, const std::string& prefix);

}  // namespace tern
