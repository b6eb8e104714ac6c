// How fast LibTorch multiplies matrices here: what `tern doctor` has tern-train measure.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

struct ProbeRequest {
  Clock* clock = nullptr;
  int64_t threads = 1;
  std::string device = "cpu";  // or "cuda:0"
  // For each kind of number. The first product of a kind, which makes LibTorch choose its kernels,
  // comes on top.
  Nanoseconds limit = std::chrono::milliseconds(1000);
};

// One line of JSON without its newline: device, libtorch, kernels, threads, float32_gflops and,
// where the device has instructions for it, bfloat16_gflops. Blocks for two to four seconds.
// `unavailable` if the GPU cannot be used, `invalid` for another device, `exhausted` without
// memory, `internal` for what else LibTorch throws.
Result<std::string> probe_speed(const ProbeRequest& request);

}  // namespace tern
