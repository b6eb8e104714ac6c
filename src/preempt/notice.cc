#include "preempt/notice.h"

#include <utility>

namespace tern {

void NoticeBoard::post(Notice notice) {
  {
    MutexLock lock(mutex_);
    if (!first_) first_ = std::move(notice);
  }
  // Outside the lock: callbacks of waiters run here, and may look at the board.
  posted_.request_stop();
}

std::optional<Notice> NoticeBoard::notice() const {
  MutexLock lock(mutex_);
  return first_;
}

}  // namespace tern
