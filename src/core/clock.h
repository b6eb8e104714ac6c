// The one door to time. Passed in by reference; tests pass a SimClock and advance it by hand.
//
// Nothing that decides a result (sample order, arithmetic, who holds the lease) may read it: clocks
// decide only when things are tried, shown and recorded.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "core/mutex.h"

namespace tern {

using Nanoseconds = std::chrono::nanoseconds;
using Milliseconds = std::chrono::milliseconds;

// Safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back; its zero means nothing. For durations.
  virtual Nanoseconds now() = 0;

  // Milliseconds since 1970 UTC; may jump. For records that people read, never for durations.
  virtual int64_t unix_ms() = 0;

  // Blocks for `duration`, or until `stop` is requested. True if the whole duration passed.
  virtual bool wait_for(Nanoseconds duration, std::stop_token stop) = 0;
};

// The machine's clocks.
class SystemClock final : public Clock {
 public:
  Nanoseconds now() override;
  int64_t unix_ms() override;
  bool wait_for(Nanoseconds duration, std::stop_token stop) override;
};

// A clock that moves only when told. wait_for() moves it by the duration and returns at once, so
// a test of an hour of retries takes no time.
class SimClock final : public Clock {
 public:
  explicit SimClock(int64_t unix_ms = 1'700'000'000'000) : unix_ms_(unix_ms) {}

  Nanoseconds now() override;
  int64_t unix_ms() override;
  bool wait_for(Nanoseconds duration, std::stop_token stop) override;

  void advance(Nanoseconds duration);
  // Moves only the calendar, as an administrator or NTP would.
  void jump_calendar(Milliseconds by);

 private:
  Mutex mutex_;
  Nanoseconds now_ GUARDED_BY(mutex_){0};
  int64_t unix_ms_ GUARDED_BY(mutex_);
};

// By a clock that all processes of a machine share, so that one can tell the next when it began.
Nanoseconds time_since_boot();

// "2026-03-01T12:34:56.789Z"
std::string format_utc(int64_t unix_ms);

double to_seconds(Nanoseconds duration);

}  // namespace tern
