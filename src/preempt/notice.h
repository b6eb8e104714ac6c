// A notice: a warning that this machine will go, or may go, or a person's wish that the run stop.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"

namespace tern {

enum class NoticeKind {
  preempt,  // the machine goes: save, publish, exit "preempted"; something will resume the run
  stop,     // a person asked: save, publish, exit "stopped"
  advice,   // the machine may go, or will pause: save, publish, and go on
};

struct Notice {
  NoticeKind kind = NoticeKind::preempt;
  std::string source;            // "SIGTERM", "file preempt.txt", "AWS spot interruption (stop)"
  int64_t unix_ms = 0;           // when it was seen
  int64_t deadline_unix_ms = 0;  // when the machine goes; 0: that was not told
  std::string id;                // of the event, for telling it once; empty: made from the above
};

// An id for an event that has none: the same for the same content.
std::string notice_id(std::initializer_list<std::string_view> content);

// Where watchers post and the step loop looks. Of those that tell the run to leave the first
// counts, with the earliest deadline of all; a later one of any source is the same event told
// again. Advice counts once for each id. Safe from any thread; never blocks for long.
class NoticeBoard {
 public:
  // Called by watchers, which do nothing else. False if it was on the board already.
  bool post(Notice notice);
  // Called by the step loop between steps.
  std::optional<Notice> notice() const;
  // Likewise: the oldest advice that was not taken yet, which it is from now on.
  std::optional<Notice> take_advice();
  // All that was posted, each once; for the record.
  std::vector<Notice> all() const;
  // Fires with the first notice that tells the run to leave: for waits (for data, for another
  // holder) that must not outlast the machine.
  std::stop_token stop_token() const { return posted_.get_token(); }

 private:
  std::stop_source posted_;  // synchronises itself
  mutable Mutex mutex_;
  std::vector<Notice> notices_ GUARDED_BY(mutex_);
  size_t advice_taken_ GUARDED_BY(mutex_) = 0;  // of notices_, all before this
};

}  // namespace tern
