#include "loader/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/mutex.h"
#include "loader/make_batch.h"

namespace tern {
namespace {

// What a thread takes at once. Few enough that several threads share one batch; enough that taking,
// about a microsecond, is little beside loading, about a microsecond for each of the smallest
// images.
constexpr int64_t kChunkSamples = 32;

// Batches given back that are kept. One comes back for each that is taken, and is used at once
// unless the window is full.
constexpr size_t kSpareMax = 2;

int64_t batches_per_epoch(const Loader::Setup& setup) {
  const int64_t all = setup.plan->batches_per_epoch();
  return setup.batches_per_epoch == 0 ? all : std::min(setup.batches_per_epoch, all);
}

LoaderPosition after(const Loader::Setup& setup, LoaderPosition at) {
  if (at.batch + 1 < batches_per_epoch(setup)) return {at.epoch, at.batch + 1};
  return {at.epoch + 1, 0};
}

// A batch made by the caller's thread, which waits for all of it: there is no queue. The wait
// begins after the meter is made, so the first stage lasts since then: allocation is part of the
// first fetch.
Result<Batch> make_batch(const Loader::Setup& setup, LoaderPosition at, BatchFiller& filler,
                         Batch spare, const std::stop_token& stop) {
  std::atomic<Nanoseconds> waited_since = kNobodyWaits;
  StageMeter meter(setup.clock, waited_since);
  if (setup.clock) waited_since = setup.clock->now();
  ASSIGN_OR_RETURN(Batch batch, allocate_batch(setup, at, std::move(spare)));
  ASSIGN_OR_RETURN(batch.bad, filler.fill(batch, batch.positions, meter, stop));
  if (stop.stop_requested()) return fail(Code::cancelled, "stopped while making a batch");
  const StageTimes& busy = meter.times();
  batch.waited = split_wait(std::accumulate(busy.begin(), busy.end(), Nanoseconds(0)), busy);
  return finish_batch(std::move(batch));
}

}  // namespace

Result<Batch> load_batch(const Loader::Setup& setup, LoaderPosition at) {
  BatchFiller filler(setup);
  return make_batch(setup, at, filler, {}, {});
}

// The window: batches from the one that next() waits for to the newest one begun. Threads take
// chunks from the newest, and begin another behind it while the window has room; next() takes the
// oldest away once all its chunks are done. Owned by the Loader.
class Loader::Workers {
 public:
  explicit Workers(const Setup& setup)
      : setup_(setup),
        window_max_(static_cast<size_t>(setup.options.batches_ahead + setup.options.threads)),
        position_(setup.start),
        own_filler_(setup_),
        upcoming_(setup.start) {
    try {
      for (int64_t i = 0; i < setup.options.threads; ++i) {
        threads_.emplace_back([this](std::stop_token stop) { work(stop); });
      }
    } catch (const std::system_error&) {
      // The machine has no more threads to give. Fewer, even none, make the same batches.
    }
  }

  // All are told before the first is waited for, so that together they take one sample's time.
  ~Workers() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  // Called by the owner's thread only.
  Result<Batch> next(std::stop_token stop) EXCLUDES(mutex_) {
    TERN_CHECK(!finished_ && position_.epoch < setup_.epochs);
    Result<Batch> batch = threads_.empty()
                              ? make_batch(setup_, position_, own_filler_, take_spare(), stop)
                              : take_oldest(std::move(stop));
    if (batch) {
      position_ = after(setup_, position_);
    } else if (batch.error().code != Code::cancelled) {
      finished_ = true;
    }
    return batch;
  }

  void recycle(Batch batch) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (spare_.size() < kSpareMax) spare_.push_back(std::move(batch));
  }

  LoaderPosition position() const { return position_; }

  std::string waits_for() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (threads_.empty()) return place_text(own_filler_.place());
    if (window_.empty()) return "no thread has begun it";
    const Batch& oldest = window_.front()->batch;
    for (const BatchFiller* filler : fillers_) {
      const FillerPlace& place = filler->place();
      if (place.batch == oldest.index && place.epoch == oldest.epoch) return place_text(place);
    }
    return "no thread has come to it";
  }

 private:
  struct Entry {
    Batch batch;
    int64_t given_out = 0;  // samples that threads have taken
    int64_t done = 0;       // samples that they have brought back
    std::optional<Error> error;
    int64_t error_position = 0;  // the first failure of a batch is told, whoever was faster

    // Set under mutex_ while next() waits for this batch; threads that work on it look at it.
    std::atomic<Nanoseconds> waited_since = kNobodyWaits;
    StageTimes busy{};  // of chunks brought back, within that wait
  };
  struct Chunk {
    Entry* entry;  // stays in place: next() takes an entry away only when its chunks are done
    PositionRange positions;
  };

  std::string place_text(const FillerPlace& place) const {
    const int64_t sample = place.sample;
    if (place.batch < 0 || sample < 0) return "no thread has come to it";
    return fmt::format("{}, attempt {}", setup_.dataset->where(sample), place.attempt.load());
  }

  void work(std::stop_token stop) EXCLUDES(mutex_) {
    BatchFiller filler(setup_);
    {
      MutexLock lock(mutex_);
      fillers_.push_back(&filler);
    }
    fill_chunks(filler, stop);
    MutexLock lock(mutex_);
    std::erase(fillers_, &filler);
  }

  void fill_chunks(BatchFiller& filler, const std::stop_token& stop) EXCLUDES(mutex_) {
    while (std::optional<Chunk> chunk = take_chunk(stop)) {
      StageMeter meter(setup_.clock, chunk->entry->waited_since);
      Result<std::vector<BadRead>> filled =
          filler.fill(chunk->entry->batch, chunk->positions, meter, stop);
      if (stop.stop_requested()) return;
      bring_back(*chunk, std::move(filled), meter);
    }
  }

  // Blocks until there is something to do. Nothing: stop.
  std::optional<Chunk> take_chunk(std::stop_token stop) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const bool has_work = work_.wait(lock, stop, [this] {
      mutex_.assert_held();
      return begin_batch_if_needed();
    });
    if (!has_work || stop.stop_requested()) return std::nullopt;
    Entry& newest = *window_.back();
    const int64_t begin = newest.batch.positions.begin + newest.given_out;
    const int64_t end = std::min(begin + kChunkSamples, newest.batch.positions.end);
    newest.given_out += end - begin;
    return Chunk{&newest, {begin, end}};
  }

  // True if the newest batch has samples to give out. Shares that are empty need no work and are
  // passed over.
  bool begin_batch_if_needed() REQUIRES(mutex_) {
    while (window_.empty() || all_given_out(*window_.back())) {
      if (failed_ || window_.size() == window_max_ || upcoming_.epoch == setup_.epochs)
        return false;
      auto entry = std::make_unique<Entry>();
      if (Result<Batch> batch = allocate_batch(setup_, upcoming_, take_spare_locked())) {
        entry->batch = std::move(*batch);
      } else {
        entry->error = batch.error();
        failed_ = true;
      }
      if (window_.empty()) entry->waited_since = waiting_since_;
      upcoming_ = after(setup_, upcoming_);
      window_.push_back(std::move(entry));
      if (all_given_out(*window_.back())) ready_.notify_all();
    }
    return true;
  }

  // The memory of a batch that was given back, or none.
  Batch take_spare() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return take_spare_locked();
  }
  Batch take_spare_locked() REQUIRES(mutex_) {
    if (spare_.empty()) return {};
    Batch spare = std::move(spare_.back());
    spare_.pop_back();
    return spare;
  }

  void bring_back(const Chunk& chunk, Result<std::vector<BadRead>> filled, const StageMeter& meter)
      EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Entry& entry = *chunk.entry;
    entry.done += chunk.positions.size();
    if (filled) {
      std::ranges::move(*filled, std::back_inserter(entry.batch.bad));
    } else if (!entry.error || chunk.positions.begin < entry.error_position) {
      entry.error = filled.error();
      entry.error_position = chunk.positions.begin;
      failed_ = true;
    }
    // A wait that was cancelled meanwhile is over; its times are nobody's.
    if (meter.waited_since() == entry.waited_since.load()) {
      for (size_t i = 0; i < kLoadStages; ++i) entry.busy[i] += meter.times()[i];
    }
    if (is_done(entry)) ready_.notify_all();
  }

  Result<Batch> take_oldest(std::stop_token stop) EXCLUDES(mutex_) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Entry> oldest, await_oldest(std::move(stop)));
    if (oldest->error) return *oldest->error;
    return finish_batch(std::move(oldest->batch));
  }

  // Takes it out of the window once it is done.
  Result<std::unique_ptr<Entry>> await_oldest(std::stop_token stop) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto is_ready = [this] {
      mutex_.assert_held();
      return !window_.empty() && is_done(*window_.front());
    };
    DataWait waited;
    if (!is_ready()) {
      set_waiting_since(setup_.clock ? setup_.clock->now() : kNobodyWaits);
      const bool came = ready_.wait(lock, stop, is_ready);
      if (came && setup_.clock) {
        waited = split_wait(setup_.clock->now() - waiting_since_, window_.front()->busy);
      }
      set_waiting_since(kNobodyWaits);
      if (!came) return fail(Code::cancelled, "stopped while waiting for a batch");
    }
    std::unique_ptr<Entry> oldest = std::move(window_.front());
    window_.pop_front();
    work_.notify_all();
    oldest->batch.waited = waited;
    return oldest;
  }

  // Tells the threads at work on the oldest batch; if it is not begun, whoever begins it will know.
  void set_waiting_since(Nanoseconds since) REQUIRES(mutex_) {
    waiting_since_ = since;
    if (window_.empty()) return;
    window_.front()->waited_since = since;
    window_.front()->busy = {};
  }

  static bool all_given_out(const Entry& entry) {
    return entry.given_out == entry.batch.positions.size();
  }
  static bool is_done(const Entry& entry) { return entry.done == entry.batch.positions.size(); }

  // Constant after construction.
  const Setup setup_;
  const size_t window_max_;

  // The owner's thread only.
  LoaderPosition position_;
  bool finished_ = false;
  BatchFiller own_filler_;  // used if there are no threads

  // Synchronise themselves, with mutex_.
  ConditionVariable work_;   // the window has room
  ConditionVariable ready_;  // the oldest batch may be done

  Mutex mutex_;
  std::deque<std::unique_ptr<Entry>> window_ GUARDED_BY(mutex_);
  LoaderPosition upcoming_ GUARDED_BY(mutex_);  // the batch to begin next
  bool failed_ GUARDED_BY(mutex_) = false;      // no batch is begun after one that failed
  Nanoseconds waiting_since_ GUARDED_BY(mutex_) = kNobodyWaits;  // next(), for the oldest batch

  std::vector<Batch> spare_ GUARDED_BY(mutex_);                 // given back, at most kSpareMax
  std::vector<const BatchFiller*> fillers_ GUARDED_BY(mutex_);  // of threads_

  // Last, so that they are joined before what they use goes away.
  std::vector<std::jthread> threads_;
};

Loader::Loader(const Setup& setup) {
  TERN_CHECK(setup.dataset != nullptr && setup.plan != nullptr);
  TERN_CHECK(setup.plan->samples() == setup.dataset->size());
  TERN_CHECK(setup.image.size > 0 || setup.dataset->shape().bytes() > 0);
  TERN_CHECK(setup.options.threads >= 0 && setup.options.batches_ahead >= 1);
  TERN_CHECK(setup.world > 0 && setup.rank >= 0 && setup.rank < setup.world);
  TERN_CHECK(setup.start.epoch >= 0 && setup.start.batch >= 0);
  TERN_CHECK(setup.batches_per_epoch >= 0);
  TERN_CHECK(setup.start.batch < batches_per_epoch(setup));
  TERN_CHECK(setup.start.epoch < setup.epochs || setup.start == (LoaderPosition{setup.epochs, 0}));
  workers_ = std::make_unique<Workers>(setup);
}

Loader::~Loader() = default;

Result<Batch> Loader::next(std::stop_token stop) { return workers_->next(std::move(stop)); }

void Loader::recycle(Batch batch) { workers_->recycle(std::move(batch)); }

LoaderPosition Loader::position() const { return workers_->position(); }

std::string Loader::waits_for() const { return workers_->waits_for(); }

}  // namespace tern
