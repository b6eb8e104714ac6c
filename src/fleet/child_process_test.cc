#include "fleet/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "core/system_files.h"
#include "fleet/test_folder.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ChildProcess : public testing::Test {
 protected:
  Result<ChildAnswer> run(ChildSetup setup) { return run_child(setup, clock_, stop_.get_token()); }
  Result<ChildAnswer> shell(const std::string& script) {
    return run({.command = {"sh", "-c", script}});
  }

  SystemClock clock_;
  std::stop_source stop_;
};

TEST_F(ChildProcess, AnswersWithItsExitCodeAndWords) {
  const auto answer = shell("echo out; echo err >&2; exit 7");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->exit_code, 7);
  EXPECT_EQ(answer->out, "out\n");
  EXPECT_EQ(answer->err, "err\n");
  EXPECT_FALSE(answer->is_cut);
  EXPECT_EQ(shell("kill -9 $$")->exit_code, -9);
}

TEST_F(ChildProcess, GetsBytesAndFilesAsItsInput) {
  const std::string input(3'000'000, 'x');
  EXPECT_EQ(run({.command = {"wc", "-c"}, .input = input})->out, "3000000\n");
  const TestFolder folder;
  const std::string file = folder.write("a", "from a file");
  EXPECT_EQ(run({.command = {"cat"}, .input_file = file})->out, "from a file");
  EXPECT_EQ(run({.command = {"cat"}})->out, "");
  EXPECT_EQ(run({.command = {"cat"}, .input_file = folder / "none"}).error().code, Code::not_found);
}

TEST_F(ChildProcess, IsHeardToItsLastWordHoweverFastItEnds) {
  for (int i = 0; i < 50; ++i) {
    const auto answer = run({.command = {"echo", "last words"}});
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(answer->out, "last words\n");
  }
}

TEST_F(ChildProcess, MayEndWithoutReadingItsInput) {
  EXPECT_EQ(run({.command = {"true"}, .input = std::string(3'000'000, 'x')})->exit_code, 0);
}

TEST_F(ChildProcess, SaysWhyItCannotBeStarted) {
  const auto answer = run({.command = {"no-such-program-of-ours"}});
  EXPECT_EQ(answer.error().code, Code::not_found);
  EXPECT_THAT(answer.error().message, HasSubstr("no-such-program-of-ours cannot be started"));
}

TEST_F(ChildProcess, SaysNoMoreThanIsKept) {
  const auto answer =
      run({.command = {"sh", "-c", "head -c 200000 /dev/zero"}, .output_bytes_max = 1000});
  EXPECT_THAT(answer->out, SizeIs(1000));
  EXPECT_TRUE(answer->is_cut);
  EXPECT_EQ(answer->exit_code, 0);
}

TEST_F(ChildProcess, IsNotWaitedForInItsBackground) {
  // Holds stdout and stderr, as ssh's shared connections did in old versions.
  const auto answer = shell("sleep 100 & echo $!");
  ASSERT_TRUE(answer) << answer.error().message;
  const auto pid = parse_whole_number(answer->out);
  ASSERT_TRUE(pid);
  EXPECT_EQ(kill(static_cast<pid_t>(*pid), SIGKILL), 0);
}

TEST_F(ChildProcess, IsEndedWithItsGroupByAStop) {
  const TestFolder folder;
  std::jthread stopper([&] {
    while (!std::filesystem::exists(folder / "began")) clock_.wait_for(Milliseconds(5), {});
    stop_.request_stop();
  });
  const auto answer =
      run({.command = {"sh", "-c", "sleep 1000 & echo $! > \"$0\"; mv \"$0\" \"$1\"; wait",
                       (folder / "pid").string(), (folder / "began").string()}});
  EXPECT_EQ(answer.error().code, Code::cancelled);
  const auto pid = parse_whole_number(folder.read("began"));
  ASSERT_TRUE(pid);
  // Dead, though somebody may still have to reap it.
  const auto is_dead = [&] {
    const std::string state = read_system_file("/proc/" + std::to_string(*pid) + "/stat");
    return state.empty() || state.find(") Z ") != std::string::npos;
  };
  const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
  while (!is_dead() && clock_.now() < deadline) clock_.wait_for(Milliseconds(5), {});
  EXPECT_TRUE(is_dead());
}

TEST_F(ChildProcess, IsEndedByItsLimitAlsoIfItWillNot) {
  const auto answer = run({.command = {"sh", "-c", "trap '' TERM; while :; do sleep 1; done"},
                           .limit = Milliseconds(50)});
  EXPECT_EQ(answer.error().code, Code::deadline_exceeded);
}

}  // namespace
}  // namespace tern
