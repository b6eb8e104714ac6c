#include "core/clock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

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

Nanoseconds process_age() {
  // Field 22 counts ticks from the boot to the process's start; the name in field 2 may hold spaces
  // and brackets, so fields are counted behind its last one.
  std::ifstream file("/proc/self/stat");
  const std::string line(std::istreambuf_iterator<char>(file), {});
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return Nanoseconds(0);
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  int64_t start_ticks = 0;
  const int64_t ticks_per_second = sysconf(_SC_CLK_TCK);
  timespec since_boot{};
  if (!(fields >> start_ticks) || ticks_per_second <= 0 ||
      clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) {
    return Nanoseconds(0);
  }
  const Nanoseconds now = std::chrono::seconds(since_boot.tv_sec) + Nanoseconds(since_boot.tv_nsec);
  const Nanoseconds start(start_ticks * (1'000'000'000 / ticks_per_second));
  return std::max(Nanoseconds(0), now - start);
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
