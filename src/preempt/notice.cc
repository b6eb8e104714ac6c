#include "preempt/notice.h"

#include <utility>

namespace tern {

void NoticeBoard::post(Notice notice) {
  MutexLock lock(mutex_);
  if (!first_) first_ = std::move(notice);
}

std::optional<Notice> NoticeBoard::notice() const {
  MutexLock lock(mutex_);
  return first_;
}

}  // namespace tern
