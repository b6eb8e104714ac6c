// `tern status X -f`: the table, again and again until the run has ended.
#pragma once

#include <stop_token>

#include "cli/fleet_door.h"

namespace tern {

// Redraws the table on a terminal; else prints each line that has changed. Each machine is asked by
// itself, so one that does not answer holds up no other. Returns when nothing runs any more, or
// with `stop`.
void follow_status(const OpenedRun& opened, Clock& clock, std::stop_token stop);

}  // namespace tern
