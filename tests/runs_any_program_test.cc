// `tern program` with a real program of two ranks, which is killed in every way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>

#include "any_program_log.h"
#include "process.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AnyProgram : public testing::Test {
 protected:
  AnyProgram() {
    std::string folder = testing::TempDir() + "any_program_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    fs::create_directory(folder_ / "log");
  }
  ~AnyProgram() override { fs::remove_all(folder_); }

  Process::Start start(int64_t steps, const std::string& work) const {
    Process::Start start{.command = {TERN_PROGRAM, "program", "--ranks", "2", "--run",
                                     (folder_ / "run").string(), "--work",
                                     (folder_ / work).string()}};
    std::ranges::copy(any_program(steps, folder_ / "log"), std::back_inserter(start.command));
    return start;
  }
  std::string report() const {
    const Finished done =
        run_to_end({.command = {TERN_PROGRAM, "report", (folder_ / "run").string()}});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  }
  std::vector<ProgramStep> lines() const {
    std::vector<ProgramStep> all = steps_of(folder_ / "log", 0);
    std::ranges::copy(steps_of(folder_ / "log", 1), std::back_inserter(all));
    return all;
  }
  std::optional<ProgramStep> find(int64_t attempt, int64_t rank, int64_t step) const {
    return find_step(folder_ / "log", attempt, rank, step);
  }
  bool has_kept(int64_t number) const {
    std::error_code error;
    for (const auto& entry :
         fs::directory_iterator(folder_ / "run" / "program" / "manifests", error)) {
      if (std::stoll(entry.path().stem().string()) >= number) return true;
    }
    return false;
  }

  fs::path folder_;
};

TEST_F(AnyProgram, GoesOnFromWhatItSavedWhenARankIsKilled) {
  Process process(start(80, "work"));
  ASSERT_TRUE(wait_until([&] { return find(1, 1, 12).has_value(); })) << process.err_so_far();
  kill(find(1, 1, 12)->pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return find(2, 0, 25).has_value(); })) << process.err_so_far();
  kill(find(2, 0, 25)->pid, SIGKILL);
  const Finished done = process.wait();
  EXPECT_EQ(done.exit_code, 0) << done.err;
  // Of each attempt the first step is the one after what was saved.
  for (int64_t attempt = 2; attempt <= 3; ++attempt) {
    int64_t first = 1000;
    for (const ProgramStep& line : lines()) {
      if (line.attempt == attempt) first = std::min(first, line.step);
    }
    EXPECT_GT(first, attempt == 2 ? 10 : 20);
    EXPECT_EQ((first - 1) % 5, 0);
  }
  EXPECT_TRUE(find(3, 0, 80)) << done.err;
  EXPECT_TRUE(find(3, 1, 80));
  const std::string told = report();
  EXPECT_THAT(told, AllOf(HasSubstr(": done"), HasSubstr("the program has ended on all ranks"),
                          HasSubstr("2, started 3 times"), HasSubstr("was killed by"),
                          HasSubstr("any_program.py 80")));
}

TEST_F(AnyProgram, GoesOnOnAnotherMachineAfterEverythingWasKilled) {
  {
    Process process(start(100'000, "work"));
    ASSERT_TRUE(wait_until([&] { return has_kept(2); })) << process.err_so_far();
    const std::optional<ProgramStep> last = find(1, 0, 1);
    process.signal(SIGKILL);
    process.wait();
    ASSERT_TRUE(wait_until([&] { return kill(last->pid, 0) != 0; })) << "it outlives its ranks";
  }
  EXPECT_THAT(report(), HasSubstr("was killed or the machine was lost"));
  int64_t saved = 0;
  for (const ProgramStep& line : lines()) saved = std::max(saved, line.step);
  // Some steps more than it had done, and a folder that has nothing.
  const Finished done = run_to_end(start(saved + 7, "other"));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, Not(HasSubstr("begins at step 0\n")));
  // All that it did is kept: the third begins at the end.
  const Finished again = run_to_end(start(saved + 7, "third"));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("begins at step " + std::to_string(saved + 7)));
}

TEST_F(AnyProgram, SavesAndLeavesAtANoticeAndGoesOn) {
  Process process(start(100'000, "work"));
  ASSERT_TRUE(wait_until([&] { return find(1, 1, 7).has_value(); })) << process.err_so_far();
  process.signal(SIGTERM);
  const Finished left = process.wait();
  EXPECT_EQ(left.exit_code, 75) << left.err;
  EXPECT_THAT(report(), AllOf(HasSubstr(": preempted"), HasSubstr("SIGTERM"),
                              HasSubstr("it finds what it saved")));
  int64_t last = 0;
  for (const ProgramStep& line : lines()) last = std::max(last, line.step);
  const Finished done = run_to_end(start(last + 3, "other"));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("begins at step " + std::to_string(last))) << done.err;
}

// The first attempt leaves one that is whole, waits until it is kept, and half of the next.
TEST_F(AnyProgram, ThatIsKilledWhileItSavesFindsTheLastWholeSave) {
  for (const bool is_alone : {true, false}) {
    const std::string run = (folder_ / (is_alone ? "one" : "two")).string();
    // Rank 0 writes; the last rank is killed, and rank 0 with it or for it.
    const std::string script =
        "F=$TERN_CHECKPOINT_DIR/last.pt; "
        "if test $TERN_ATTEMPT -ge 2; then test $RANK != 0 || echo found $(cat $F); exit 0; fi; "
        "if test $RANK = 0; then echo whole > $F; "
        "until test -e $TERN_RUN/program/manifests/000000000001.json; do sleep 0.02; done; "
        "exec 3> $F; printf ha >&3; echo > $TERN_RUN/half; "
        "else until test -e $TERN_RUN/half; do sleep 0.02; done; fi; "
        "test $RANK = $((WORLD_SIZE - 1)) && kill -9 $$; "
        "trap '' TERM; while :; do sleep 0.02; printf l >&3; done";
    const Finished done =
        run_to_end({.command = {TERN_PROGRAM, "program", "--ranks", is_alone ? "1" : "2", "--run",
                                run, "--work", run + "-work", "--", "sh", "-c", script}});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_THAT(done.out, HasSubstr("found whole\n")) << done.err;
    EXPECT_THAT(done.err, HasSubstr("is set aside"));
    EXPECT_TRUE(fs::exists(run + "-work/set-aside/last.pt"));
  }
}

TEST_F(AnyProgram, WhoseLastSaveFailsHasFailedAndKeepsItsFolder) {
  const std::string run = (folder_ / "run").string();
  // No files can be put where a file is.
  const std::string script =
      "cat $TERN_CHECKPOINT_DIR/$RANK.pt 2>/dev/null && exit 0; "
      "if test $RANK = 0; then rm -rf $TERN_RUN/program; echo > $TERN_RUN/program; fi; "
      "echo weights of $RANK > $TERN_CHECKPOINT_DIR/$RANK.pt";
  const auto command = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {TERN_PROGRAM, "program", "--ranks", "2", "--run", run};
    std::ranges::copy(more, std::back_inserter(words));
    std::ranges::copy(std::vector<std::string>{"--", "sh", "-c", script},
                      std::back_inserter(words));
    return words;
  };
  const Finished failed = run_to_end({.command = command({})});
  EXPECT_EQ(failed.exit_code, 6) << failed.err;
  EXPECT_THAT(report(), AllOf(HasSubstr(": failed"), HasSubstr("saved last is not in the run")));
  const std::string flag = "--work ";
  const size_t at = failed.err.find(flag);
  ASSERT_NE(at, std::string::npos) << failed.err;
  const std::string work =
      failed.err.substr(at + flag.size(), failed.err.find('`', at) - at - flag.size());
  EXPECT_TRUE(fs::exists(fs::path(work) / "checkpoints" / "0.pt")) << failed.err;
  // As it says.
  fs::remove(folder_ / "run" / "program");
  const Finished done = run_to_end({.command = command({"--work", work})});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("weights of 0"));
  EXPECT_TRUE(has_kept(1));
  fs::remove_all(work);
}

TEST_F(AnyProgram, ThatListensWhereTheStoreIsLearnsOfTheFlag) {
  Process::Start wrong = start(5, "work");
  std::erase(wrong.command, "--leave-port-free");
  const Finished failed = run_to_end(wrong);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("Address already in use"),
                                HasSubstr("or chooses a port itself, needs --leave-port-free")));
}

TEST_F(AnyProgram, ThatAlwaysFailsIsGivenUpWithItsOwnExitCode) {
  const Finished failed =
      run_to_end({.command = {TERN_PROGRAM, "program", "--run", (folder_ / "run").string(), "--",
                              "sh", "-c", "exit 7"}});
  EXPECT_EQ(failed.exit_code, 7) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("not started again"));
  EXPECT_THAT(report(), AllOf(HasSubstr(": failed"), HasSubstr("ended with exit code 7")));
  const Finished none = run_to_end({.command = {TERN_PROGRAM, "program", "--", "no-such-program"}});
  EXPECT_EQ(none.exit_code, 127);
  EXPECT_THAT(none.err, HasSubstr("no-such-program cannot be started"));
  EXPECT_EQ(run_to_end({.command = {TERN_PROGRAM, "program"}}).exit_code, 2);
}

}  // namespace
}  // namespace tern
