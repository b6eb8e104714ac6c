// std::mutex with the annotations that clang's -Wthread-safety checks; empty under gcc.
//
//   Mutex mutex_;
//   int count_ GUARDED_BY(mutex_) = 0;
//   ...
//   MutexLock lock(mutex_);
//   changed_.wait(lock, stop, [&] { mutex_.assert_held(); return count_ > 0; });
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TERN_ANNOTATE(x) __attribute__((x))
#else
#define TERN_ANNOTATE(x)
#endif

#define CAPABILITY(x) TERN_ANNOTATE(capability(x))
#define SCOPED_CAPABILITY TERN_ANNOTATE(scoped_lockable)
#define GUARDED_BY(x) TERN_ANNOTATE(guarded_by(x))
#define REQUIRES(...) TERN_ANNOTATE(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) TERN_ANNOTATE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) TERN_ANNOTATE(release_capability(__VA_ARGS__))
#define EXCLUDES(...) TERN_ANNOTATE(locks_excluded(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) TERN_ANNOTATE(assert_capability(x))

namespace tern {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  // For predicates run inside a wait, where clang cannot see that the lock is held.
  void assert_held() const ASSERT_CAPABILITY(this) {}

 private:
  std::mutex mutex_;
};

// Holds the mutex for a scope. It can be handed to ConditionVariable::wait.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Called by ConditionVariable while it waits; nobody else should.
  void lock() TERN_ANNOTATE(no_thread_safety_analysis) { mutex_.lock(); }
  void unlock() TERN_ANNOTATE(no_thread_safety_analysis) { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

// Every wait takes a stop_token or a deadline; condition_variable_any gives both.
using ConditionVariable = std::condition_variable_any;

}  // namespace tern
