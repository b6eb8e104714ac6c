// Many small pieces of work on some threads.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "core/result.h"

namespace tern {

// Calls work(item, thread) once for every item in [0, count), from `threads` threads at a time, and
// blocks until all are done. `thread` tells them apart: 0 to threads - 1. The first error ends it
// and is returned, as does `stop` with `cancelled`; what was begun by then is finished.
// REQUIRES: threads > 0.
Status for_each_in_parallel(int64_t count, int64_t threads, std::stop_token stop,
                            const std::function<Status(int64_t item, int64_t thread)>& work);

// Calls it; an exception of a library (no memory, in the first place) becomes an error.
Status guarded(const std::function<Status()>& work);

}  // namespace tern
