// Reading a sample again when its disk or server did not answer for a moment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"
#include "dataset/dataset.h"

namespace tern {

// Reads of one sample, the first included: with the waits between them, which double from a tenth
// of a second, about 12 seconds. A file server that is started again takes no longer.
inline constexpr int kFetchAttemptsMax = 8;
// So long after the first has failed there is no other: a bucket tries for 2 minutes by itself
// before it says that it is away.
inline constexpr std::chrono::seconds kFetchTimeMax{60};

// Dataset::fetch(), tried again while it says `unavailable` (EIO, ESTALE, EAGAIN, ETIMEDOUT, a
// store that is away) or `deadline_exceeded`; the last error is returned with what was tried.
// Blocks until then. When `stop` fires while it waits: `cancelled`. Without a clock nothing is
// tried again. `attempt`, if given, has the number of the one under way, for others to look at.
Result<BytesView> fetch_with_retries(const Dataset& dataset, int64_t sample, Bytes& buffer,
                                     Clock* clock, const std::stop_token& stop,
                                     std::atomic<int>* attempt = nullptr);

}  // namespace tern
