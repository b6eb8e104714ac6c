#include "cli/copy_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "core/stdio.h"
#include "train/exit_codes.h"

namespace tern {

Result<std::unique_ptr<Interruptible>> Interruptible::start(Clock& clock) {
  RETURN_IF_ERROR(SignalWatcher::block_signals());
  auto made = std::make_unique<Interruptible>();
  ASSIGN_OR_RETURN(made->signals_,
                   SignalWatcher::start(made->board_, clock, [] { _exit(kExitInterruptedTwice); }));
  return made;
}

std::optional<int> Interruptible::exit_code(const Error& error, const std::string& next) const {
  const std::optional<Notice> notice = board_.notice();
  if (error.code != Code::cancelled || !notice) return std::nullopt;
  write_stderr(fmt::format("tern: stopped by {}; {}\n", notice->source, next));
  return notice->kind == NoticeKind::preempt ? kExitPreempted : kExitStopped;
}

Status with_progress(Log& log, Clock& clock, ProgressOptions options,
                     const std::function<Status(const OnDone& on_done)>& work) {
  constexpr Milliseconds kLookEvery{200};
  std::atomic<int64_t> done = 0;
  std::stop_source ended;
  Status result;
  std::jthread worker([&] {
    result = work([&done](int64_t more) { done += more; });
    ended.request_stop();
  });
  Progress progress(log, clock, std::move(options));
  while (clock.wait_for(kLookEvery, ended.get_token())) progress.update(done);
  worker.join();
  progress.finish();
  return result;
}

}  // namespace tern
