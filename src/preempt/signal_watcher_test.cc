#include "preempt/signal_watcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <functional>

namespace tern {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class SignalWatcherTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SignalWatcher::block_signals()); }

  std::unique_ptr<SignalWatcher> start() {
    auto watcher = SignalWatcher::start(board_, sim_clock_, [this] { ++left_; });
    EXPECT_TRUE(watcher);
    return watcher ? std::move(*watcher) : nullptr;
  }

  bool eventually(const std::function<bool()>& happened) {
    const Nanoseconds deadline = clock_.now() + 20s;
    while (!happened()) {
      if (clock_.now() > deadline) return false;
      clock_.wait_for(1ms, {});
    }
    return true;
  }

  // Signals are pending until the watcher has read them; of equal pending ones only one is kept.
  bool taken(int signal) {
    return eventually([signal] {
      sigset_t pending;
      sigpending(&pending);
      return sigismember(&pending, signal) == 0;
    });
  }

  SystemClock clock_;
  SimClock sim_clock_;
  NoticeBoard board_;
  std::atomic<int> left_ = 0;
};

TEST_F(SignalWatcherTest, SigtermIsAPreemptNotice) {
  const auto watcher = start();
  kill(getpid(), SIGTERM);
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  EXPECT_EQ(board_.notice()->kind, NoticeKind::preempt);
  EXPECT_EQ(board_.notice()->source, "SIGTERM");
  EXPECT_EQ(board_.notice()->unix_ms, 1'700'000'000'000);
}

TEST_F(SignalWatcherTest, Sigusr1IsAPreemptNotice) {
  const auto watcher = start();
  kill(getpid(), SIGUSR1);
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  EXPECT_EQ(board_.notice()->kind, NoticeKind::preempt);
  EXPECT_EQ(board_.notice()->source, "SIGUSR1");
}

TEST_F(SignalWatcherTest, OneSigintIsAStopNoticeAndDoesNotLeave) {
  const auto watcher = start();
  kill(getpid(), SIGINT);
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  EXPECT_EQ(board_.notice()->kind, NoticeKind::stop);
  EXPECT_EQ(board_.notice()->source, "SIGINT");
  EXPECT_EQ(left_, 0);
}

TEST_F(SignalWatcherTest, TheSecondSigintLeavesNowAndAThirdChangesNothing) {
  const auto watcher = start();
  kill(getpid(), SIGINT);
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  kill(getpid(), SIGINT);
  ASSERT_TRUE(eventually([&] { return left_ > 0; }));
  kill(getpid(), SIGINT);
  ASSERT_TRUE(taken(SIGINT));
  EXPECT_EQ(left_, 1);
}

TEST_F(SignalWatcherTest, RepeatedSigtermNeverLeavesNow) {
  const auto watcher = start();
  for (int i = 0; i < 5; ++i) {
    kill(getpid(), SIGTERM);
    ASSERT_TRUE(taken(SIGTERM));
  }
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  EXPECT_EQ(board_.notice()->source, "SIGTERM");
  EXPECT_EQ(left_, 0);
}

TEST_F(SignalWatcherTest, ASignalThatCameBeforeTheWatcherIsSeen) {
  kill(getpid(), SIGTERM);
  const auto watcher = start();
  EXPECT_TRUE(eventually([&] { return board_.notice().has_value(); }));
}

TEST_F(SignalWatcherTest, TheDestructorEndsTheThreadPromptlyAndASignalAfterItDoesNotKill) {
  const Nanoseconds begin = clock_.now();
  for (int i = 0; i < 100; ++i) start();
  EXPECT_LT(clock_.now() - begin, 10s);

  kill(getpid(), SIGTERM);
  const auto watcher = start();
  EXPECT_TRUE(eventually([&] { return board_.notice().has_value(); }));
}

// As the trainer does it, seen from outside: a parent interrupts it twice, and reads its exit code.
TEST_F(SignalWatcherTest, AProcessThatIsInterruptedTwiceExitsFromLeaveNow) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto watcher = SignalWatcher::start(board_, clock_, [] { _exit(130); });
    if (!watcher) _exit(1);
    while (!board_.notice()) clock_.wait_for(1ms, {});
    if (write(pipe_ends[1], "n", 1) != 1) _exit(1);
    clock_.wait_for(60s, {});  // "saving": longer than anybody wants to wait
    _exit(2);
  }
  close(pipe_ends[1]);  // so that the read below ends if the child dies
  char noticed = 0;
  kill(child, SIGINT);
  ASSERT_EQ(read(pipe_ends[0], &noticed, 1), 1);
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  close(pipe_ends[0]);
}

}  // namespace
}  // namespace tern
