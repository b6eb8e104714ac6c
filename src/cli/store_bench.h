// What `tern store bench` measures.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct StoreBenchOptions {
  int64_t objects = 100;
  int64_t object_bytes = 110 * 1024;        // an image
  int64_t large_bytes = int64_t{64} << 20;  // a shard, or a checkpoint
  int64_t in_flight = 16;
};

// One line of the answer.
struct StoreBenchRow {
  std::string what;
  int64_t requests = 0;
  int64_t bytes = 0;
  double seconds = 0;
  double median_ms = 0;  // of one request
  double slowest_ms = 0;
};

// Called with each row as soon as it is known.
using OnBenchRow = std::function<void(const StoreBenchRow& row)>;

// Writes, reads and removes objects below a name of its own, which is gone afterwards, also if
// something fails or `stop` fires, which is `cancelled`. Blocks for seconds.
Result<std::vector<StoreBenchRow>> bench_store(ObjectStore& store, Clock& clock,
                                               const StoreBenchOptions& options,
                                               const std::stop_token& stop = {},
                                               const OnBenchRow& on_row = {});

// For people: the names of the columns, and a line for each row.
std::string format_bench_columns();
std::string format_bench_row(const StoreBenchRow& row);
nlohmann::json store_bench_json(const std::vector<StoreBenchRow>& rows);

}  // namespace tern
