#include "core/clock.h"

#include <fmt/format.h>

#include <ctime>

namespace tern {

Nanoseconds SystemClock::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

int64_t SystemClock::unix_ms() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Milliseconds>(since_1970).count();
}

bool SystemClock::wait_for(Nanoseconds duration, std::stop_token stop) {
  Mutex mutex;
  ConditionVariable never_notified;
  MutexLock lock(mutex);
  never_notified.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

Nanoseconds time_since_boot() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

Nanoseconds SimClock::now() {
  MutexLock lock(mutex_);
  return now_;
}

int64_t SimClock::unix_ms() {
  MutexLock lock(mutex_);
  return unix_ms_ + std::chrono::duration_cast<Milliseconds>(now_).count();
}

bool SimClock::wait_for(Nanoseconds duration, std::stop_token stop) {
  if (stop.stop_requested()) return false;
  advance(duration);
  return true;
}

void SimClock::advance(Nanoseconds duration) {
  MutexLock lock(mutex_);
  now_ += duration;
}

void SimClock::jump_calendar(Milliseconds by) {
  MutexLock lock(mutex_);
  unix_ms_ += by.count();
}

std::string format_utc(int64_t unix_ms) {
  const auto seconds_before = std::chrono::floor<std::chrono::seconds>(Milliseconds(unix_ms));
  const std::time_t seconds = static_cast<std::time_t>(seconds_before.count());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (Milliseconds(unix_ms) - seconds_before).count());
}

double to_seconds(Nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace tern
