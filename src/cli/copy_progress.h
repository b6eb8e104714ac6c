// A copy under way, for people: progress, and Ctrl-C.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "cli/object_bytes.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "preempt/signal_watcher.h"

namespace tern {

// Signals are blocked before the first thread is made, so it comes before a CloudDoor is used.
// The first Ctrl-C (or SIGTERM) stops between objects, the second leaves at once.
class Interruptible {
 public:
  static Result<std::unique_ptr<Interruptible>> start(Clock& clock);

  std::stop_token stop_token() const { return board_.stop_token(); }
  // The exit code of `cancelled` after a signal, having said `next` on stderr; nothing if it was
  // none.
  std::optional<int> exit_code(const Error& error, const std::string& next) const;

 private:
  NoticeBoard board_;
  std::unique_ptr<SignalWatcher> signals_;
};

// Called with how many more are done, from any thread.
using OnDone = std::function<void(int64_t more)>;

// Runs `work` on a thread and shows meanwhile how much of the total it has told of.
Status with_progress(Log& log, Clock& clock, ProgressOptions options,
                     const std::function<Status(const OnDone& on_done)>& work);

}  // namespace tern
