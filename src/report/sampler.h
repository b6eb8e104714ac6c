// Looks now and then at what the process and the machine use, while the run trains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "report/event_format.h"
#include "report/system_counters.h"

namespace tern {

inline constexpr char kSamplesObject[] = "samples.jsonl";

// What was used in the seconds before `unix_ms`.
struct SystemSample {
  int64_t unix_ms = 0;
  double seconds = 0;
  std::vector<Scalar> values;  // names as system_use() gives them, and "gpu/..."
};

// Owned by RunRecords, driven by a thread of its own from start() to stop(), which waits by the
// clock and ends at once when told. The sink and `gpu` are called on that thread. Nothing fails:
// what cannot be seen is left out. Reading takes some tens of microseconds, and a GPU's driver a
// few milliseconds.
class Sampler {
 public:
  struct Setup {
    Milliseconds period{10'000};
    // A run of weeks stays small: after so many samples the period doubles, again and again.
    int64_t samples_per_period = 5'000;
    int64_t samples_before = 0;  // that earlier processes of the run have taken
    std::filesystem::path proc = "/proc";
    std::function<std::vector<Scalar>()> gpu = nullptr;  // what the GPU says, "gpu/power_watts"
  };
  using Sink = std::function<void(const SystemSample&)>;

  // The clock outlives it.
  Sampler(Setup setup, Clock& clock, Sink sink);

  void start();
  // Ends the thread after a last sample, so that a short run has one too. The destructor takes
  // none: whoever has lost a run does not write into it any more.
  void stop();

  // Called by the thread, and by tests instead of it.
  void sample();
  Milliseconds period() const;

 private:
  const Setup setup_;
  Clock& clock_;
  const Sink sink_;
  const double ticks_per_second_;

  // The thread's while it runs.
  SystemCounters before_;
  Nanoseconds before_at_;
  int64_t taken_ = 0;

  std::jthread thread_;  // last: it ends before what it uses
};

// A line of samples.jsonl: docs/format_records.md.
std::string sample_line(const SystemSample& sample, int64_t step, int64_t lease);

}  // namespace tern
