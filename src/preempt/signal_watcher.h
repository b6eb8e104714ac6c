// Notices from signals: SIGTERM and SIGUSR1 (schedulers, clouds, `kill`), SIGHUP (the terminal was
// closed), SIGINT (Ctrl-C).
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "core/clock.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "preempt/watcher.h"

namespace tern {

// SIGTERM, SIGUSR1 and SIGHUP (unless that is ignored, as under nohup) post a preempt notice,
// SIGINT posts a stop notice, and a second SIGINT calls `leave_now` on the watcher's thread, at
// most once.
//
// No code runs inside a signal handler: the signals are blocked and read from a descriptor, so what
// happens on one is ordinary code. One watcher per process, as signals are the process's.
class SignalWatcher final : public Watcher {
 public:
  // Call first thing in main(), before any thread is made: threads inherit the mask, and a signal
  // sent to the process is delivered to any one thread that does not block it, which would then end
  // the process. Signals that come before start() wait and are seen by it.
  //
  // Never undone, not even by the destructor: a SIGTERM that comes while the process is already
  // leaving must not kill it in the middle of that. Programs started from here inherit the mask.
  // A signal that the parent had set to be ignored (a shell does that to SIGINT of a background
  // job) is seen all the same: whoever sends one to this process means it.
  static Status block_signals();

  // REQUIRES: block_signals() was called. `exhausted` if the process has no descriptors left.
  static Result<std::unique_ptr<SignalWatcher>> start(NoticeBoard& board, Clock& clock,
                                                      std::function<void()> leave_now);
  ~SignalWatcher() override;

 private:
  SignalWatcher(NoticeBoard& board, Clock& clock, std::function<void()> leave_now, int signals,
                int wake);
  void watch(std::stop_token stop);
  void handle(int signal);

  NoticeBoard& board_;
  Clock& clock_;
  const std::function<void()> leave_now_;
  const int signals_;  // signalfd
  const int wake_;     // eventfd: readable once the watcher shall end

  int interrupts_ = 0;   // of the thread only
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
