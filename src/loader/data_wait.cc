#include "loader/data_wait.h"

#include "core/result.h"

namespace tern {

DataWait split_wait(Nanoseconds wait, const StageTimes& busy) {
  Nanoseconds total_busy{0};
  for (const Nanoseconds time : busy) {
    TERN_CHECK(time.count() >= 0);
    total_busy += time;
  }
  TERN_CHECK(wait.count() >= 0);

  StageTimes parts = busy;
  if (total_busy > wait) {
    // Where the stages end, one behind the other, is scaled rather than how long they are: so the
    // last one ends exactly at the end of the wait, and rounding loses nothing. A double is exact
    // to the nanosecond for 104 days.
    const double scale =
        static_cast<double>(wait.count()) / static_cast<double>(total_busy.count());
    Nanoseconds busy_until{0};
    Nanoseconds part_until{0};
    for (size_t stage = 0; stage < kLoadStages; ++stage) {
      busy_until += busy[stage];
      const auto scaled = static_cast<int64_t>(static_cast<double>(busy_until.count()) * scale);
      const Nanoseconds end = busy_until == total_busy ? wait : Nanoseconds(scaled);
      parts[stage] = end - part_until;
      part_until = end;
    }
  }
  DataWait split{.fetch = parts[static_cast<size_t>(LoadStage::fetch)],
                 .decode = parts[static_cast<size_t>(LoadStage::decode)],
                 .augment = parts[static_cast<size_t>(LoadStage::augment)]};
  split.queue = wait - split.total();
  return split;
}

StageMeter::StageMeter(Clock* clock, const std::atomic<Nanoseconds>& waited_since)
    : clock_(clock),
      waited_since_(waited_since),
      wait_(waited_since.load(std::memory_order_acquire)) {
  if (wait_ != kNobodyWaits) begun_ = clock_->now();
}

void StageMeter::end(LoadStage stage) {
  const Nanoseconds wait = waited_since_.load(std::memory_order_acquire);
  if (wait == kNobodyWaits) return;
  if (wait != wait_) {
    wait_ = wait;
    begun_ = wait;
    times_ = {};
  }
  const Nanoseconds now = clock_->now();
  times_[static_cast<size_t>(stage)] += now - begun_;
  begun_ = now;
}

}  // namespace tern
