// How long next() waited and for what. The threads run for real; time moves only when the test says
// so.
//
// A thread is sure to see that somebody waits only once it has taken the loader's lock after that
// began. So where the times must be exact, the last read of the first chunk of 32 samples is held
// until next() has looked at the clock, and time moves only in later chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <stop_token>
#include <thread>

#include "loader/test_loader.h"

namespace tern {
namespace {

using std::chrono::milliseconds;

// Moves when told and, if `tick` is not 0, by that much after every look. Knows which looks were
// those of the thread that made it: that is the one that calls next().
class WatchedClock final : public Clock {
 public:
  explicit WatchedClock(Nanoseconds tick = Nanoseconds(0)) : tick_(tick) {}

  Nanoseconds now() override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const Nanoseconds seen = now_;
    now_ += tick_;
    ++looks_;
    if (std::this_thread::get_id() == owner_) {
      owner_looks_.push_back(seen);
      changed_.notify_all();
    }
    return seen;
  }
  int64_t unix_ms() override { return 0; }
  bool wait_for(Nanoseconds duration, std::stop_token) override {
    advance(duration);
    return true;
  }

  void advance(Nanoseconds duration) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    now_ += duration;
  }
  // Returns when the owner has looked so often; far too long fails the test.
  void await_owner(size_t looks) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kFarTooLong, [&] {
      mutex_.assert_held();
      return owner_looks_.size() >= looks;
    })) << "next() never looked";
  }
  int64_t looks() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return looks_;
  }
  std::vector<Nanoseconds> take_owner_looks() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return std::exchange(owner_looks_, {});
  }

 private:
  const Nanoseconds tick_;
  const std::thread::id owner_ = std::this_thread::get_id();
  ConditionVariable changed_;
  Mutex mutex_;
  Nanoseconds now_ GUARDED_BY(mutex_){0};
  int64_t looks_ GUARDED_BY(mutex_) = 0;
  std::vector<Nanoseconds> owner_looks_ GUARDED_BY(mutex_);
};

// One epoch, without augmentation.
Loader::Setup timed_setup(const Given& given, int64_t threads, WatchedClock& clock) {
  Loader::Setup setup = given.setup(threads, /*epochs=*/1);
  setup.augment = {};
  setup.clock = &clock;
  return setup;
}

TEST(LoaderWait, SlowReadIsFetch) {
  // The batch that is waited for is begun, or (if the scheduler wills it) not yet.
  for (const int64_t reads_before : {1, 0}) {
    WatchedClock clock;
    Given given(64, 64, Order::sequential);
    given.dataset.on_read([&](int64_t sample) {
      if (sample == 31) clock.await_owner(1);
      if (sample >= 32) clock.advance(milliseconds(3));
    });
    Loader loader(timed_setup(given, 1, clock));
    ASSERT_TRUE(given.dataset.wait_for_reads(reads_before));
    const Result<Batch> batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->waited, (DataWait{.fetch = milliseconds(96)}));
  }
}

TEST(LoaderWait, TimeOutsideOfAllStagesIsQueue) {
  WatchedClock clock;
  Given given(64, 64, Order::sequential);
  given.dataset.on_read([&](int64_t sample) {
    if (sample == 31) clock.await_owner(1);
    if (sample == 40) clock.advance(milliseconds(2));
  });
  // The last label is looked up when the last stage of the batch is over.
  given.dataset.on_label([&](int64_t sample) {
    if (sample == 63) clock.advance(milliseconds(5));
  });
  Loader loader(timed_setup(given, 1, clock));
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->waited, (DataWait{.fetch = milliseconds(2), .queue = milliseconds(5)}));
}

TEST(LoaderWait, ThreadsThatReadAtTheSameTimeWaitNoLongerThanTheClockSays) {
  constexpr int64_t kThreads = 4;
  constexpr int64_t kFirst = 32 * kThreads;
  WatchedClock clock;
  Given given(3 * kFirst, 3 * kFirst, Order::sequential);
  given.dataset.on_read([&](int64_t sample) {
    if (sample < kFirst && sample % 32 == 31) clock.await_owner(1);
    if (sample >= kFirst) clock.advance(milliseconds(1));
  });
  Loader loader(timed_setup(given, kThreads, clock));
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  // A thread between two stages may see the clock moved by another's read: mostly fetch, then.
  EXPECT_EQ(batch->waited.total(), milliseconds(2 * kFirst));
  EXPECT_GT(batch->waited.fetch, milliseconds(kFirst));
}

TEST(LoaderWait, CancelledWaitIsNotCountedInTheNext) {
  WatchedClock clock;
  std::stop_source stop;
  Given given(128, 128, Order::sequential);
  // Within the wait that will be cancelled one chunk is brought back, and one is all but done.
  given.dataset.on_read([&](int64_t sample) {
    if (sample == 31) clock.await_owner(1);
    if (sample == 40 || sample == 70) clock.advance(milliseconds(10));
    if (sample >= 96) clock.advance(milliseconds(1));
  });
  given.dataset.on_label([&](int64_t sample) {
    if (sample == 95) {
      stop.request_stop();
      clock.await_owner(2);
    }
    if (sample == 127) clock.advance(milliseconds(50));
  });
  Loader loader(timed_setup(given, 1, clock));
  const Result<Batch> cancelled = loader.next(stop.get_token());
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::cancelled);
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->waited, (DataWait{.fetch = milliseconds(32), .queue = milliseconds(50)}));
}

TEST(LoaderWait, NobodyLooksAtTheClockForABatchThatIsReady) {
  WatchedClock clock(milliseconds(1));
  const Given given(128, 64);
  Loader loader(timed_setup(given, 1, clock));
  // The only thread reads for the second batch, so the first is done.
  ASSERT_TRUE(given.dataset.wait_for_reads(65));
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->waited, DataWait());
  EXPECT_EQ(clock.looks(), 0);
}

TEST(LoaderWait, NobodyLooksAtTheClockAfterACancelledWait) {
  WatchedClock clock(milliseconds(1));
  std::stop_source stop;
  Given given(128, 64, Order::sequential);
  given.dataset.on_read([&](int64_t sample) {
    if (sample != 31) return;
    clock.await_owner(1);
    stop.request_stop();
    clock.await_owner(2);
  });
  Loader loader(timed_setup(given, 1, clock));
  ASSERT_FALSE(loader.next(stop.get_token()));
  const int64_t looks = clock.looks();
  clock.now();  // lets the thread go on
  ASSERT_TRUE(given.dataset.wait_for_reads(65));
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->waited, DataWait());
  EXPECT_EQ(clock.looks(), looks + 1);
}

TEST(LoaderWait, WithoutThreadsTheWorkItselfIsMeasured) {
  WatchedClock clock(milliseconds(1));
  const Given given(50, 50);
  Loader::Setup setup = timed_setup(given, 0, clock);
  EXPECT_EQ(load_batch(setup, {0, 0}).value().waited,
            (DataWait{.fetch = milliseconds(50), .decode = milliseconds(50)}));
  setup.augment.flip = true;
  Loader loader(setup);
  clock.take_owner_looks();
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->waited, (DataWait{.fetch = milliseconds(50),
                                     .decode = milliseconds(50),
                                     .augment = milliseconds(50)}));
  const std::vector<Nanoseconds> looks = clock.take_owner_looks();
  EXPECT_EQ(batch->waited.total(), looks.back() - looks.front());
}

TEST(LoaderWait, WithoutAClockNothingIsMeasured) {
  const Given given(50, 50);
  for (const int64_t threads : {0, 2}) {
    for (const Batch& batch : load_all(given.setup(threads))) EXPECT_EQ(batch.waited, DataWait());
  }
}

// Whatever the scheduler does: the parts add up to what passed between the two looks of next(), and
// the batches are those of a loader that measures nothing.
TEST(LoaderWait, PartsAddUpToTheWaitAndTheBatchesAreTheSame) {
  const Given given(500, 70);
  const std::vector<Batch> unmeasured = load_all(given.setup(0));
  int64_t waits = 0;
  for (int round = 0; round < 20; ++round) {
    for (const int64_t threads : {0, 1, 2, 8}) {
      WatchedClock clock(Nanoseconds(1 + 7 * round));
      Loader::Setup setup = given.setup(threads);
      setup.clock = &clock;
      setup.options.batches_ahead = 1;
      std::vector<Batch> batches;
      Loader loader(setup);
      while (loader.position().epoch < setup.epochs) {
        Result<Batch> batch = loader.next();
        ASSERT_TRUE(batch);
        const std::vector<Nanoseconds> looks = clock.take_owner_looks();
        const DataWait& waited = batch->waited;
        ASSERT_EQ(waited.total(), looks.empty() ? Nanoseconds(0) : looks.back() - looks.front());
        ASSERT_GE(std::min({waited.fetch, waited.decode, waited.augment, waited.queue}),
                  Nanoseconds(0));
        waits += looks.empty() ? 0 : 1;
        batches.push_back(std::move(*batch));
      }
      expect_equal(batches, unmeasured);
    }
  }
  EXPECT_GE(waits, 20 * 24);  // at least all of those without threads
}

}  // namespace
}  // namespace tern
