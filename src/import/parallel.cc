#include "import/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace tern {
namespace {

// The error that came first. Safe from any thread.
class FirstError {
 public:
  void set(const Error& error) {
    MutexLock lock(mutex_);
    if (!error_) error_ = error;
    is_set_ = true;
  }
  bool is_set() const { return is_set_; }
  std::optional<Error> get() {
    MutexLock lock(mutex_);
    return error_;
  }

 private:
  std::atomic<bool> is_set_ = false;
  Mutex mutex_;
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

}  // namespace

Status guarded(const std::function<Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(Code::exhausted, "out of memory; free some, or use fewer --threads");
  } catch (const std::exception& error) {
    return fail(Code::internal,
                fmt::format("this is a bug in tern: {}; please report it", error.what()));
  }
}

Status for_each_in_parallel(int64_t count, int64_t threads, std::stop_token stop,
                            const std::function<Status(int64_t item, int64_t thread)>& work) {
  std::atomic<int64_t> next = 0;
  FirstError failure;
  {
    std::vector<std::jthread> pool;
    for (int64_t thread = 0; thread < std::min(threads, count); ++thread) {
      pool.emplace_back([&, thread] {
        while (!failure.is_set() && !stop.stop_requested()) {
          const int64_t item = next++;
          if (item >= count) return;
          const Status status = guarded([&] { return work(item, thread); });
          if (!status) failure.set(status.error());
        }
      });
    }
  }
  if (const std::optional<Error> error = failure.get()) return *error;
  if (next < count) return fail(Code::cancelled, "stopped");
  return {};
}

}  // namespace tern
