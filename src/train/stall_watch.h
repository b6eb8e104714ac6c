// Says who waits for whom and for what, when a step does not end.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/mutex.h"
#include "train/rank_door.h"

namespace tern {

// What a rank can be at for so long that the others should know.
enum class RankWork { data, step, agreement, evaluation, checkpoint };
inline constexpr size_t kRankWorks = 5;

// Has one thread, which looks a few times a second at what the step loop is in. What takes several
// times as long as usual, and two seconds at least, is a stall: then the thread says in the log and
// with the heartbeat what this rank waits for. Which ranks have not come to a collective is found
// by notes that stalled ranks leave for each other; as long as nothing stalls there are none, and
// nothing is asked. All of it comes before ranks.timeout, unless a step usually takes seconds.
class StallWatch {
 public:
  struct Setup {
    Clock* clock = nullptr;  // these outlive the watch; real time
    Log* log = nullptr;
    RankDoor* door = nullptr;
    Milliseconds least{2'000};  // that is called a stall
    // More, before ranks that have not come are named: one that came a moment later has left its
    // note by then.
    Milliseconds grace{1'000};
    Milliseconds look_every{250};
  };

  // What the step loop is at from here to the end of the scope.
  struct Work {
    RankWork what = RankWork::step;
    int64_t step = 0;  // that is being done, from 1
    RankProgress progress = {};
    // What data waits for; whether the loop waits for others just now. Called by the watch's
    // thread, within the scope only. May be none.
    std::function<std::string()> data_waits_for = nullptr;
    std::function<bool()> is_waiting = nullptr;
  };
  class Scope {
   public:
    Scope(StallWatch& watch, Work work) : watch_(watch) { watch_.begin(std::move(work)); }
    ~Scope() { watch_.end(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StallWatch& watch_;
  };

  explicit StallWatch(const Setup& setup);

  // The group that the loop is in from now on. Called by the loop, outside of a scope.
  void join(const RankGroup& group);

 private:
  // What one look of the thread finds.
  struct Look {
    int64_t number = 0;  // of the work
    RankWork what = RankWork::step;
    int64_t step = 0;
    bool is_over = false;  // there is nothing to tell any more
    bool is_stall = false;
    bool is_waiting = false;  // for others; else it works, or waits for data
    std::string data = {};
    RankGroup group = {};
  };

  void begin(Work work);
  void end();
  void look(Nanoseconds now);
  Nanoseconds limit_of(RankWork what) const REQUIRES(mutex_);
  void leave_note(const Look& seen);
  std::string missing_ranks(const Look& seen, const std::string& collective);
  void tell(const Look& seen, const std::string& text, Nanoseconds now);

  const Setup setup_;

  Mutex mutex_;
  RankGroup group_ GUARDED_BY(mutex_);
  bool is_working_ GUARDED_BY(mutex_) = false;
  Work work_ GUARDED_BY(mutex_);
  int64_t number_ GUARDED_BY(mutex_) = 0;  // of works begun
  Nanoseconds since_ GUARDED_BY(mutex_){0};
  std::array<Nanoseconds, kRankWorks> usual_ GUARDED_BY(mutex_){};
  std::string told_ GUARDED_BY(mutex_);  // of this work, in the log
  Nanoseconds told_at_ GUARDED_BY(mutex_){0};

  // The thread's: the note that it has left, or empty.
  std::string note_;
  int64_t note_generation_ = 0;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
