#include "preempt/notice.h"

#include <algorithm>
#include <utility>

#include "core/hash.h"

namespace tern {
namespace {

// Clouds tell of a handful of events in a machine's life. What is beyond this is told no more.
constexpr size_t kNoticesMax = 256;

bool tells_to_leave(const Notice& notice) { return notice.kind != NoticeKind::advice; }

}  // namespace

std::string notice_id(std::initializer_list<std::string_view> content) {
  Sha256 hash;
  for (const std::string_view part : content) hash.update_field(part);
  return to_hex(hash.finish()).substr(0, 16);
}

bool NoticeBoard::post(Notice notice) {
  if (notice.id.empty()) {
    notice.id = notice_id({std::to_string(static_cast<int>(notice.kind)), notice.source,
                           std::to_string(notice.deadline_unix_ms)});
  }
  const bool leaves = tells_to_leave(notice);
  {
    MutexLock lock(mutex_);
    const auto is_same = [&notice](const Notice& other) { return other.id == notice.id; };
    if (std::ranges::any_of(notices_, is_same)) return false;
    const bool is_first = leaves && std::ranges::none_of(notices_, tells_to_leave);
    if (notices_.size() >= kNoticesMax && !is_first) return false;
    notices_.push_back(std::move(notice));
  }
  // Outside the lock: callbacks of waiters run here, and may look at the board.
  if (leaves) posted_.request_stop();
  return true;
}

std::optional<Notice> NoticeBoard::notice() const {
  MutexLock lock(mutex_);
  std::optional<Notice> first;
  for (const Notice& each : notices_) {
    if (!tells_to_leave(each)) continue;
    if (!first) first = each;
    const int64_t deadline = each.deadline_unix_ms;
    const bool is_earlier = first->deadline_unix_ms == 0 || deadline < first->deadline_unix_ms;
    if (deadline != 0 && is_earlier) first->deadline_unix_ms = deadline;
  }
  return first;
}

std::optional<Notice> NoticeBoard::take_advice() {
  MutexLock lock(mutex_);
  while (advice_taken_ < notices_.size()) {
    const Notice& next = notices_[advice_taken_++];
    if (!tells_to_leave(next)) return next;
  }
  return std::nullopt;
}

std::vector<Notice> NoticeBoard::all() const {
  MutexLock lock(mutex_);
  return notices_;
}

}  // namespace tern
