// A notice: a warning that this machine will go, or a person's wish that the run stop.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "core/mutex.h"

namespace tern {

enum class NoticeKind {
  preempt,  // the machine goes: save, publish, exit "preempted"; something will resume the run
  stop,     // a person asked: save, publish, exit "stopped"
};

struct Notice {
  NoticeKind kind = NoticeKind::preempt;
  std::string source;  // "SIGTERM", "file preempt.txt"
  int64_t unix_ms = 0;
};

// Where watchers post and the step loop looks. The first notice counts; later ones of any source
// are the same event told again. Safe from any thread; never blocks for long.
class NoticeBoard {
 public:
  // Called by watchers, which do nothing else.
  void post(Notice notice);
  // Called by the step loop between steps.
  std::optional<Notice> notice() const;
  // Fires with the first notice: for waits (for data, for another holder) that must not outlast the
  // machine.
  std::stop_token stop_token() const { return posted_.get_token(); }

 private:
  std::stop_source posted_;  // synchronises itself
  mutable Mutex mutex_;
  std::optional<Notice> first_ GUARDED_BY(mutex_);
};

}  // namespace tern
