#include "cli/store_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/mutex.h"
#include "core/progress.h"
#include "core/random.h"
#include "storage/prefix_store.h"

namespace tern {
namespace {

constexpr int64_t kRangeBytes = 256 * 1024;
constexpr int64_t kLatencyRequests = 20;

// Bytes that nothing on the way can make smaller.
Bytes noise(int64_t bytes) {
  Bytes text(static_cast<size_t>(bytes), '\0');
  Random random(1, Stream::fingerprint, 7);
  for (size_t i = 0; i + 4 <= text.size(); i += 4) {
    const uint32_t value = random.next();
    std::memcpy(text.data() + i, &value, sizeof value);
  }
  return text;
}

// Widths that fit, as a row is printed before the next is known.
std::string format_columns(auto... cells) {
  return fmt::format("{:<15}{:>10}{:>11}{:>11}{:>11}{:>12}{:>12}\n", cells...);
}

using Request = std::function<Status(int64_t number)>;

struct Job {
  std::string what;
  int64_t requests = 0;
  int64_t bytes = 0;  // of one
  int64_t threads = 1;
};

// Each request once, by so many threads.
Result<StoreBenchRow> measure(const Job& job, Clock& clock, const std::stop_token& stop,
                              const Request& request) {
  std::atomic<int64_t> next = 0;
  Mutex mutex;
  Status first;  // both guarded by mutex while the threads run
  std::vector<double> latencies;
  const auto work = [&] {
    for (int64_t number = next++; number < job.requests && !stop.stop_requested();
         number = next++) {
      const Nanoseconds begin = clock.now();
      const Status done = request(number);
      const double ms = to_seconds(clock.now() - begin) * 1e3;
      MutexLock lock(mutex);
      latencies.push_back(ms);
      if (!done && first) first = done;
      if (!first) return;
    }
  };
  const Nanoseconds begin = clock.now();
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < std::min(job.threads, job.requests); ++i) threads.emplace_back(work);
    work();
  }
  if (!first) return first.error().at(job.what);
  if (stop.stop_requested()) return fail(Code::cancelled, "stopped");
  std::ranges::sort(latencies);
  return StoreBenchRow{.what = job.what,
                       .requests = job.requests,
                       .bytes = job.requests * job.bytes,
                       .seconds = to_seconds(clock.now() - begin),
                       .median_ms = latencies[latencies.size() / 2],
                       .slowest_ms = latencies.back()};
}

Status got(const Result<Bytes>& bytes, int64_t wanted) {
  if (!bytes) return bytes.error();
  if (static_cast<int64_t>(bytes->size()) == wanted) return {};
  return fail(Code::corrupt, fmt::format("{} bytes came instead of {}; is it an object store?",
                                         bytes->size(), wanted));
}

Status run_jobs(ObjectStore& store, Clock& clock, const StoreBenchOptions& options,
                const std::stop_token& stop, const OnBenchRow& tell) {
  const Bytes small = noise(options.object_bytes);
  const auto name = [](int64_t number) { return fmt::format("object-{:06}", number); };
  const auto add = [&](const Job& job, const Request& request) -> Status {
    ASSIGN_OR_RETURN(const StoreBenchRow row, measure(job, clock, stop, request));
    tell(row);
    return {};
  };
  const int64_t size = options.object_bytes;
  RETURN_IF_ERROR(add({"put", options.objects, size, options.in_flight},
                      [&](int64_t i) { return store.put(name(i), small); }));
  RETURN_IF_ERROR(add({"get", options.objects, size, options.in_flight},
                      [&](int64_t i) { return got(store.get(name(i)), size); }));
  const int64_t looks = std::min(options.objects, kLatencyRequests);
  RETURN_IF_ERROR(add({"get, one by one", looks, size, 1},
                      [&](int64_t i) { return got(store.get(name(i)), size); }));
  RETURN_IF_ERROR(add({"create", looks, 16, 1}, [&](int64_t i) {
    return store.create(name(i) + "-new", "sixteen bytes ..");
  }));
  RETURN_IF_ERROR(add({"list", 3, 0, 1}, [&](int64_t) {
    const auto listed = store.list("");
    return listed ? Status() : Status(listed.error());
  }));
  if (options.large_bytes == 0) return {};
  {
    const Bytes large = noise(options.large_bytes);
    RETURN_IF_ERROR(add({"put, in parts", 1, options.large_bytes, 1},
                        [&](int64_t) { return store.put("large", large); }));
  }
  const int64_t ranges = std::max<int64_t>(1, options.large_bytes / kRangeBytes);
  const int64_t range = std::min(kRangeBytes, options.large_bytes);
  return add({"ranged get", ranges, range, options.in_flight},
             [&](int64_t i) { return got(store.get_range("large", i * range, range), range); });
}

}  // namespace

Result<std::vector<StoreBenchRow>> bench_store(ObjectStore& store, Clock& clock,
                                               const StoreBenchOptions& options,
                                               const std::stop_token& stop,
                                               const OnBenchRow& on_row) {
  PrefixStore own(store, fmt::format("tern-bench-{}-{}", ::getpid(), clock.unix_ms()));
  std::vector<StoreBenchRow> rows;
  const auto tell = [&](const StoreBenchRow& row) {
    rows.push_back(row);
    if (on_row) on_row(row);
  };
  const Status measured = run_jobs(own, clock, options, stop, tell);
  std::vector<std::string> names;
  const Result<std::vector<ObjectInfo>> left = own.list("");
  if (left) {
    for (const ObjectInfo& object : *left) names.push_back(object.name);
  }
  const Nanoseconds begin = clock.now();
  Status removed = own.remove_all(names);
  const double seconds = to_seconds(clock.now() - begin);
  RETURN_IF_ERROR(measured);
  if (!left) return left.error().at("remove what was written");
  RETURN_IF_ERROR(std::move(removed).at("remove what was written"));
  tell({.what = "remove",
        .requests = std::ssize(names),
        .seconds = seconds,
        .median_ms = seconds * 1e3,
        .slowest_ms = seconds * 1e3});
  return rows;
}

std::string format_bench_columns() {
  return format_columns("", "requests", "bytes", "time", "a second", "each", "slowest");
}

std::string format_bench_row(const StoreBenchRow& row) {
  const double seconds = std::max(row.seconds, 1e-9);
  const std::string rate =
      row.bytes > 0 ? format_bytes(static_cast<int64_t>(static_cast<double>(row.bytes) / seconds))
                    : fmt::format("{:.0f}", static_cast<double>(row.requests) / seconds);
  return format_columns(
      row.what, format_count(row.requests), row.bytes > 0 ? format_bytes(row.bytes) : "-",
      fmt::format("{:.2f} s", row.seconds), rate, fmt::format("{:.1f} ms", row.median_ms),
      fmt::format("{:.1f} ms", row.slowest_ms));
}

nlohmann::json store_bench_json(const std::vector<StoreBenchRow>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const StoreBenchRow& row : rows) {
    all.push_back({{"what", row.what},
                   {"requests", row.requests},
                   {"bytes", row.bytes},
                   {"seconds", row.seconds},
                   {"median_ms", row.median_ms},
                   {"slowest_ms", row.slowest_ms}});
  }
  return all;
}

}  // namespace tern
