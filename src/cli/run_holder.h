// Whether a run is being trained, for commands that only look.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// failed_precondition, with what to do, if a process of this machine trains the run. `name` is what
// the run is called.
Status refuse_if_held(ObjectStore& run, const std::string& name);

// The number of the newest record: while it stays the same nobody trains the run.
Result<int64_t> newest_record_number(ObjectStore& run);

// As refuse_if_held(); and where the holder is, or was, on another machine, waits the run's
// lease.term for a sign of life and refuses if one comes. Returns newest_record_number().
// `cancelled` if stopped.
Result<int64_t> wait_until_unheld(ObjectStore& run, const std::string& name, Clock& clock, Log& log,
                                  const std::stop_token& stop);

}  // namespace tern
