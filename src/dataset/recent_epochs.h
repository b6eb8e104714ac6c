// Remembers what was computed for the last two epochs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/mutex.h"

namespace tern {

// Two, because threads cross from one epoch to the next. Safe from any thread. What is kept never
// changes and lives as long as anybody holds it.
template <typename T>
class RecentEpochs {
 public:
  // What `make()` returned for this epoch; calls it if that is not at hand. Under the lock: whoever
  // comes meanwhile needs the same.
  template <typename Make>
  std::shared_ptr<const T> get(int64_t epoch, const Make& make) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (const Known& known : recent_) {
      if (known.value && known.epoch == epoch) return known.value;
    }
    Known made{epoch, std::make_shared<const T>(make())};
    recent_[1] = std::exchange(recent_[0], made);
    return made.value;
  }

 private:
  struct Known {
    int64_t epoch = 0;
    std::shared_ptr<const T> value;
  };
  Mutex mutex_;
  std::array<Known, 2> recent_ GUARDED_BY(mutex_);  // newest first
};

}  // namespace tern
