// A queue between threads that never holds more than its limit.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <stop_token>
#include <utility>

#include "core/mutex.h"

namespace tern {

// Safe from any thread. Blocks: push while full, pop while empty. Both give up when their stop
// token fires or the queue is closed; what is already inside can still be popped after close().
template <typename T>
class BoundedQueue {
 public:
  // REQUIRES: limit > 0.
  explicit BoundedQueue(size_t limit) : limit_(limit) {}

  // False if it gave up; the item is then dropped.
  bool push(T item, std::stop_token stop) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    changed_.wait(lock, stop, [this] {
      mutex_.assert_held();
      return closed_ || items_.size() < limit_;
    });
    if (closed_ || items_.size() >= limit_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  // Nothing if it gave up, or if the queue is closed and empty.
  std::optional<T> pop(std::stop_token stop) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    changed_.wait(lock, stop, [this] {
      mutex_.assert_held();
      return closed_ || !items_.empty();
    });
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  void close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  size_t size() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  const size_t limit_;

  ConditionVariable changed_;
  mutable Mutex mutex_;
  std::deque<T> items_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace tern
