// For tests of staging: a source that misbehaves as told, and what staging says of itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "dataset/staged_files.h"

namespace tern {

inline constexpr std::chrono::seconds kFarTooLong{60};

// Another source's files. Reads by the thread that made it are a reader's; all others are copying,
// and `on_copy` may change their bytes or fail them.
class ScriptedSource final : public SampleFiles {
 public:
  using OnCopy = std::function<Status(int64_t file, int64_t offset, Bytes& bytes)>;

  ScriptedSource(std::unique_ptr<SampleFiles> inner, OnCopy on_copy)
      : inner_(std::move(inner)), on_copy_(std::move(on_copy)) {}

  Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) const override {
    RETURN_IF_ERROR(inner_->read(file, offset, length, buffer));
    if (std::this_thread::get_id() == reader_ || !on_copy_) return {};
    return on_copy_(file, offset, buffer);
  }
  std::string where(int64_t file) const override { return inner_->where(file); }

 private:
  const std::unique_ptr<SampleFiles> inner_;
  const OnCopy on_copy_;
  const std::thread::id reader_ = std::this_thread::get_id();
};

// A door that threads wait at until it is opened, once.
class Gate {
 public:
  void open() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  // False if it was not opened for far too long.
  bool wait() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return changed_.wait_for(lock, kFarTooLong, [this] {
      mutex_.assert_held();
      return is_open_;
    });
  }

 private:
  ConditionVariable changed_;
  Mutex mutex_;
  bool is_open_ GUARDED_BY(mutex_) = false;
};

// Collects what staging tells. Outlives the staging.
class StageEvents {
 public:
  void listen(StageSetup& setup) {
    setup.on_staged = [this](int64_t file) {
      MutexLock lock(mutex_);
      staged_.push_back(file);
      changed_.notify_all();
    };
    setup.on_failure = [this](int64_t file, const Error& error) {
      MutexLock lock(mutex_);
      failures_.emplace_back(file, error);
      changed_.notify_all();
    };
  }

  // False if there were not so many after far too long.
  bool wait_staged(size_t count) EXCLUDES(mutex_) {
    return wait([this, count] {
      mutex_.assert_held();
      return staged_.size() >= count;
    });
  }
  bool wait_failures(size_t count) EXCLUDES(mutex_) {
    return wait([this, count] {
      mutex_.assert_held();
      return failures_.size() >= count;
    });
  }

  std::vector<int64_t> staged() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return staged_;
  }
  std::vector<std::pair<int64_t, Error>> failures() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return failures_;
  }

 private:
  bool wait(const std::function<bool()>& happened) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return changed_.wait_for(lock, kFarTooLong, happened);
  }

  ConditionVariable changed_;
  Mutex mutex_;
  std::vector<int64_t> staged_ GUARDED_BY(mutex_);
  std::vector<std::pair<int64_t, Error>> failures_ GUARDED_BY(mutex_);
};

}  // namespace tern
