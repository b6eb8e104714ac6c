#include "train/on_event.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Stands still until a file exists, then runs a thousand times as fast as the machine's: a limit
// passes when the command has come to where the test wants it, however slow the machine is.
class ClockFrom final : public Clock {
 public:
  explicit ClockFrom(fs::path file) : file_(std::move(file)) {}

  Nanoseconds now() override { return now_; }
  int64_t unix_ms() override { return real_.unix_ms(); }
  bool wait_for(Nanoseconds duration, std::stop_token stop) override {
    if (fs::exists(file_)) now_ += 1000 * duration;
    return real_.wait_for(duration, std::move(stop));
  }

 private:
  const fs::path file_;
  SystemClock real_;
  Nanoseconds now_{0};
};

class OnEvent : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "on_event_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    quiet_ = std::fopen((folder_ / "log").c_str(), "w");
    ASSERT_NE(quiet_, nullptr);
  }
  void TearDown() override {
    std::fclose(quiet_);
    fs::remove_all(folder_);
  }

  // Runs a command that finds the test's folder as $D.
  Status run(const std::string& command, Clock& clock, const RunEvent& event = {}) {
    Log log(clock, Level::info, quiet_);
    return run_event_command("D=" + folder_.string() + "; " + command, event, clock, log);
  }
  Status run(const std::string& command, const RunEvent& event = {}) {
    return run(command, clock_, event);
  }
  std::string read(const std::string& name) const {
    std::ifstream stream(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
  SystemClock clock_;
  std::FILE* quiet_ = nullptr;
};

TEST_F(OnEvent, TheCommandIsToldWhatHappened) {
  const RunEvent event{.status = RunStatus::preempted,
                       .run = "runs/it's \"mine\"; $(exit 1)",
                       .step = 1200,
                       .steps_lost = 3,
                       .reason = "notice:\nSIGTERM $HOME `date`",
                       .exit_code = 75};
  const Status told = run(
      "for v in EVENT RUN STEP STEPS_LOST REASON EXIT_CODE; do eval \"echo \\\"$v=\\$TERN_$v\\\"\";"
      " done >$D/told",
      event);
  ASSERT_TRUE(told.has_value()) << told.error().to_string();
  EXPECT_EQ(read("told"),
            "EVENT=preempted\nRUN=runs/it's \"mine\"; $(exit 1)\nSTEP=1200\nSTEPS_LOST=3\n"
            "REASON=notice: SIGTERM $HOME `date`\nEXIT_CODE=75\n");
}

TEST_F(OnEvent, OurEnvironmentIsKeptAndAVariableOfTheSameNameReplaced) {
  setenv("TERN_EVENT", "inherited", 1);
  setenv("TERN_EVENT_OF_ANOTHER", "kept", 1);
  const Status told = run("env | grep ^TERN_EVENT | sort >$D/told", {.status = RunStatus::done});
  unsetenv("TERN_EVENT");
  unsetenv("TERN_EVENT_OF_ANOTHER");
  ASSERT_TRUE(told.has_value()) << told.error().to_string();
  EXPECT_EQ(read("told"), "TERN_EVENT=done\nTERN_EVENT_OF_ANOTHER=kept\n");
}

TEST_F(OnEvent, EachEndHasItsWord) {
  for (const auto& [status, word] : {std::pair(RunStatus::done, "done\n"),
                                     {RunStatus::failed, "failed\n"},
                                     {RunStatus::preempted, "preempted\n"},
                                     {RunStatus::stopped, "stopped\n"}}) {
    ASSERT_TRUE(run("echo $TERN_EVENT >$D/word", {.status = status}).has_value());
    EXPECT_EQ(read("word"), word);
  }
}

TEST_F(OnEvent, ItsOutputGoesToOurStderrAndItsInputIsEmpty) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Status ran = run("echo out; echo err >&2; cat; readlink /proc/self/fd/0");
  const std::string err = testing::internal::GetCapturedStderr();
  const std::string out = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(ran.has_value()) << ran.error().to_string();
  EXPECT_EQ(err, "out\nerr\n/dev/null\n");
  EXPECT_EQ(out, "");
}

TEST_F(OnEvent, SignalsAndFilesAreThoseOfANewProgram) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&blocked, number);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto pipe_before = std::signal(SIGPIPE, SIG_IGN);
  constexpr int kLeaked = 57;
  ASSERT_EQ(dup2(STDERR_FILENO, kLeaked), kLeaked);  // not close-on-exec
  const Status ran =
      run("grep -E 'SigBlk|SigIgn' /proc/self/status >$D/signals; ls /proc/self/fd >$D/files");
  close(kLeaked);
  std::signal(SIGPIPE, pipe_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(ran.has_value()) << ran.error().to_string();
  const std::string signals = read("signals");
  EXPECT_THAT(signals, HasSubstr("SigBlk:\t0000000000000000"));
  const uint64_t ignored = std::stoull(signals.substr(signals.find("SigIgn:") + 7), nullptr, 16);
  EXPECT_EQ(ignored & (1U << (SIGPIPE - 1)), 0U);
  EXPECT_THAT(read("files"), Not(HasSubstr(std::to_string(kLeaked))));
}

TEST_F(OnEvent, AFailureIsSaidWithoutTheCommandWhichMayCarryAPassword) {
  const Status failed = run("exit 3 # password");
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().message, HasSubstr("exited with 3"));
  EXPECT_THAT(failed.error().message, Not(HasSubstr("password")));
  const Status killed = run("kill -9 $$");
  ASSERT_FALSE(killed.has_value());
  EXPECT_THAT(killed.error().message, HasSubstr("signal 9"));
  const Status unknown = run("no-such-program-anywhere 2>/dev/null");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("exited with 127"));
  std::fflush(quiet_);
  EXPECT_THAT(read("log"), HasSubstr("--on-event event=failed"));
  EXPECT_THAT(read("log"), Not(HasSubstr("password")));
}

TEST_F(OnEvent, NoCommandIsNoEvent) {
  Log log(clock_, Level::info, quiet_);
  EXPECT_TRUE(run_event_command("", {}, clock_, log).has_value());
  std::fflush(quiet_);
  EXPECT_EQ(read("log"), "");
}

// A pipe whose write end the command and its children hold: closed when the last of them is gone.
class LifeLine {
 public:
  explicit LifeLine(const fs::path& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    end_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(end_, 0);
  }
  ~LifeLine() { close(end_); }
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;

  bool is_cut_within(int limit_ms) const {
    pollfd waiting{.fd = end_, .events = 0, .revents = 0};
    return poll(&waiting, 1, limit_ms) == 1 && (waiting.revents & POLLHUP) != 0;
  }

 private:
  int end_ = -1;
};

TEST_F(OnEvent, ACommandThatTakesTooLongIsEndedWithItsChildren) {
  const LifeLine life(folder_ / "life");
  ClockFrom clock(folder_ / "ready");
  const Status ended =
      run("exec 3>$D/life; sleep 60 & touch $D/ready; sleep 60; echo >$D/late", clock);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, Code::deadline_exceeded);
  EXPECT_THAT(ended.error().message, HasSubstr("longer than 20s"));
  EXPECT_TRUE(life.is_cut_within(10'000)) << "a child of the command lives on";
  EXPECT_FALSE(fs::exists(folder_ / "late"));
}

TEST_F(OnEvent, ACommandThatIgnoresTheRequestToEndIsKilledWithItsChildren) {
  const LifeLine life(folder_ / "life");
  ClockFrom clock(folder_ / "ready");
  const Status ended =
      run("exec 3>$D/life; trap '' TERM; sleep 60 & touch $D/ready; "
          "sleep 60; :",
          clock);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, Code::deadline_exceeded);
  EXPECT_TRUE(life.is_cut_within(10'000)) << "a process that ignores SIGTERM lives on";
}

TEST_F(OnEvent, AShellThatEndsWhenAskedDoesNotSaveAChildThatDoesNot) {
  const LifeLine life(folder_ / "life");
  ClockFrom clock(folder_ / "ready");
  const Status ended =
      run("exec 3>$D/life; (trap '' TERM; touch $D/ready; sleep 60; :) & "
          "sleep 60; :",
          clock);
  ASSERT_FALSE(ended.has_value());
  EXPECT_TRUE(life.is_cut_within(10'000)) << "a child that ignores SIGTERM lives on";
}

TEST_F(OnEvent, WhatTheCommandLeavesInTheBackgroundLivesOn) {
  const LifeLine life(folder_ / "life");
  const Status ran = run("exec 3>$D/life; mkfifo $D/go; (read line <$D/go; echo $line >$D/done) &");
  ASSERT_TRUE(ran.has_value()) << ran.error().to_string();
  EXPECT_FALSE(life.is_cut_within(0));
  const int go = open((folder_ / "go").c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(write(go, "late\n", 5), 5);
  EXPECT_TRUE(life.is_cut_within(10'000));
  close(go);
  EXPECT_EQ(read("done"), "late\n");
}

TEST(OneLine, HasNoControlCharactersAndABoundedLength) {
  EXPECT_EQ(one_line("plain"), "plain");
  EXPECT_EQ(one_line(std::string_view("a\nb\r\tc\0d\x1b[1m\x7f", 13)), "a b  c d [1m ");
  EXPECT_EQ(one_line("caf\u00e9"), "caf\u00e9");
  EXPECT_EQ(one_line(std::string(1000, 'x')).size(), 1000u);
  EXPECT_EQ(one_line(std::string(100'000, 'x')).size(), 1000u);
  // Not cut inside a character.
  EXPECT_EQ(one_line(std::string(999, 'x') + "\u00e9"), std::string(999, 'x'));
  EXPECT_EQ(one_line(std::string(998, 'x') + "\u00e9y").size(), 1000u);
}

}  // namespace
}  // namespace tern
