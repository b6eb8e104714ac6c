// How fast a data set can be fed: each stage alone on one core, and all of it by the loader.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/clock.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "dataset/plan.h"
#include "loader/options.h"

namespace tern {

struct BenchSetup {
  const Dataset* dataset = nullptr;  // outlives the call
  Clock* clock = nullptr;
  int64_t batch = 64;
  int64_t samples = 2'000;  // in a pass of the loader
  int64_t passes = 3;       // the best counts: machines are noisy
  int64_t stage_samples = 500;
  uint64_t seed = 1;
  Shuffle shuffle;
  ImageOptions image;
  AugmentOptions augment;
  LoaderOptions loader;
};

struct BenchResult {
  // Samples a second on one core, each stage alone; 0: there is no such stage.
  double fetch_rate = 0;
  double decode_rate = 0;
  double augment_rate = 0;
  // The loader's.
  double rate = 0;
  double rate_per_cpu_second = 0;
  double first_batch_seconds = 0;
  int64_t bytes_per_sample = 0;
  int64_t threads = 0;
};

Result<BenchResult> bench_data(const BenchSetup& setup);

// A table; names the stage that bounds the rate.
std::string format_bench(const BenchResult& result);
nlohmann::json bench_json(const BenchResult& result);

}  // namespace tern
