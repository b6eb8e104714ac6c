// How long the step loop waited for a batch, and what the batch was waiting for meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "core/clock.h"

namespace tern {

// What a thread of the loader can be doing to a sample: getting its stored bytes, making pixels of
// them, changing those.
enum class LoadStage { fetch, decode, augment };
inline constexpr size_t kLoadStages = 3;

// Time by LoadStage, of one thread or of several added up.
using StageTimes = std::array<Nanoseconds, kLoadStages>;

// A wait, split by the stage that the awaited samples were in.
struct DataWait {
  Nanoseconds fetch{0};
  Nanoseconds decode{0};
  Nanoseconds augment{0};
  Nanoseconds queue{0};  // no thread was at work on the batch: not begun, or held up

  Nanoseconds total() const { return fetch + decode + augment + queue; }
  bool operator==(const DataWait&) const = default;
};

// Splits `wait` by what threads did for the awaited batch during it. Several threads can be busy
// for longer than the wait; then their times are scaled down to it. What is left is `queue`. The
// parts add up to `wait` exactly. REQUIRES: nothing is negative.
DataWait split_wait(Nanoseconds wait, const StageTimes& busy);

// The value of `waited_since` below while nobody waits.
inline constexpr Nanoseconds kNobodyWaits = Nanoseconds::min();

// What one thread does for one batch while somebody waits for that batch. Looks at the clock only
// then: otherwise the end of a stage costs one atomic load. Owned by the thread that works.
class StageMeter {
 public:
  // The first stage begins now. `waited_since` is the clock's time at which somebody began to wait
  // for the batch, or kNobodyWaits; another thread may change it at any time, with release.
  // REQUIRES: it stays kNobodyWaits if `clock` is null. Both outlive the meter.
  StageMeter(Clock* clock, const std::atomic<Nanoseconds>& waited_since);

  // The stage that ends here lasted since the end of the one before, or since the wait began if
  // that was later. The next stage begins.
  void end(LoadStage stage);

  // The times are those within this wait, the last one that was seen.
  Nanoseconds waited_since() const { return wait_; }
  const StageTimes& times() const { return times_; }

 private:
  Clock* const clock_;
  const std::atomic<Nanoseconds>& waited_since_;

  Nanoseconds wait_ = kNobodyWaits;
  Nanoseconds begun_{0};  // when the running stage began; has a meaning only within wait_
  StageTimes times_{};
};

}  // namespace tern
