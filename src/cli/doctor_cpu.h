// How fast the cores and the memory are, measured by loops of ours.
#pragma once

#include <cstdint>

#include "cli/doctor_findings.h"
#include "core/clock.h"

namespace tern {

// Blocks for about `duration`, with `threads` threads that compute all the time.
CpuPeak measure_cpu_peak(Clock& clock, int64_t threads, Nanoseconds duration);

// Memory that is read and written by all threads at once, in GB/s: the best of several passes over
// `bytes` in all, which must be more than the caches hold. 0 if there is not that much memory.
// Blocks for about `duration`.
double measure_memory_gb_s(Clock& clock, int64_t threads, int64_t bytes, Nanoseconds duration);

// How many bytes that takes here: four times the last cache, at least 64 MiB, at most an eighth of
// `memory_bytes` and 1 GiB.
int64_t memory_test_bytes(int64_t cache_bytes, int64_t memory_bytes);

// Of the last level, as the C library tells it; 0 if it does not.
int64_t last_cache_bytes();

}  // namespace tern
