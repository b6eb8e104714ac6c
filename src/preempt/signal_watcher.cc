#include "preempt/signal_watcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace tern {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGINT);
  // The terminal was closed, unless the user has said (nohup) that this shall not matter.
  struct sigaction hangup{};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  return set;
}

Error no_descriptor(int error) {
  return fail(Code::exhausted, fmt::format("watch for signals: {}; raise the limit on open files "
                                           "(ulimit -n) and try again",
                                           std::strerror(error)));
}

}  // namespace

Status SignalWatcher::block_signals() {
  const sigset_t set = watched_signals();
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return fail(Code::internal, fmt::format("block signals: {}", std::strerror(error)));
  }
  return {};
}

Result<std::unique_ptr<SignalWatcher>> SignalWatcher::start(NoticeBoard& board, Clock& clock,
                                                            std::function<void()> leave_now) {
  const sigset_t set = watched_signals();
  // Not blocking, so that a signal taken by somebody else between poll and read cannot hold us.
  const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return no_descriptor(errno);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const int error = errno;
    close(signals);
    return no_descriptor(error);
  }
  return std::unique_ptr<SignalWatcher>(
      new SignalWatcher(board, clock, std::move(leave_now), signals, wake));
}

SignalWatcher::SignalWatcher(NoticeBoard& board, Clock& clock, std::function<void()> leave_now,
                             int signals, int wake)
    : board_(board),
      clock_(clock),
      leave_now_(std::move(leave_now)),
      signals_(signals),
      wake_(wake),
      thread_([this](std::stop_token stop) { watch(stop); }) {}

SignalWatcher::~SignalWatcher() {
  thread_.request_stop();
  thread_.join();  // before its descriptors are closed
  close(signals_);
  close(wake_);
}

void SignalWatcher::watch(std::stop_token stop) {
  std::stop_callback on_stop(stop, [this] { eventfd_write(wake_, 1); });
  std::array<pollfd, 2> sources{{{signals_, POLLIN, 0}, {wake_, POLLIN, 0}}};
  while (!stop.stop_requested()) {
    if (poll(sources.data(), sources.size(), -1) < 0 && errno != EINTR) return;
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      handle(static_cast<int>(info.ssi_signo));
    }
  }
}

void SignalWatcher::handle(int signal) {
  if (signal == SIGINT && ++interrupts_ == 2) {
    leave_now_();
    return;
  }
  Notice notice{.unix_ms = clock_.unix_ms()};
  switch (signal) {
    case SIGTERM:
      notice.kind = NoticeKind::preempt;
      notice.source = "SIGTERM";
      break;
    case SIGUSR1:
      notice.kind = NoticeKind::preempt;
      notice.source = "SIGUSR1";
      break;
    case SIGHUP:
      notice.kind = NoticeKind::preempt;
      notice.source = "SIGHUP";
      break;
    default:
      notice.kind = NoticeKind::stop;
      notice.source = "SIGINT";
      break;
  }
  board_.post(std::move(notice));
}

}  // namespace tern
