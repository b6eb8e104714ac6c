// The example of any program, a PyTorch script, is killed and goes on, and leaves at a notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "process.h"
#include "python_torch_half.h"
#include "tiny_data.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunsPyTorch : public testing::Test {
 protected:
  void SetUp() override {
    const Finished here = run_to_end({.command = {TERN_SOURCE_DIR "/scripts/find-libtorch"}});
    ASSERT_EQ(here.exit_code, 0) << here.err;
    const fs::path site = fs::path(here.out.substr(0, here.out.find('\n'))).parent_path();
    stand_in_for_cuda(site, place_ / "no-cuda");
    fs::create_directory(place_ / "site");
    write_text(place_ / "site/sitecustomize.py",
               "import os, sys\nsys.setdlopenflags(os.RTLD_LAZY)\n");
    const char* judges = std::getenv("TERN_TEST_PYTHONPATH");
    environment_ = {{"PYTHONPATH", (place_ / "site").string() + ":" + site.string() + ":" +
                                       (judges == nullptr ? "" : judges)},
                    {"LD_LIBRARY_PATH", (place_ / "no-cuda").string()}};
    const Finished torch =
        run_to_end({.command = {"python3", "-c", "import torch"}, .environment = environment_});
    if (torch.exit_code != 0) GTEST_SKIP() << "this Python has no PyTorch: " << torch.err;
  }

  Process::Start start(int64_t steps, const std::string& work) const {
    return {.command = {TERN_PROGRAM, "program", "--ranks", "2", "--run", (place_ / "run").string(),
                        "--work", (place_ / work).string(), "--", "python3",
                        TERN_SOURCE_DIR "/examples/03-any-program/train_pytorch.py",
                        std::to_string(steps)},
            .environment = environment_};
  }
  Finished judge_store(const std::vector<std::string>& flags) const {
    Process::Start judge{.command = {TERN_PROGRAM, "program", "--ranks", "2"},
                         .environment = environment_};
    std::ranges::copy(flags, std::back_inserter(judge.command));
    std::ranges::copy(
        std::vector<std::string>{"--", "python3", TERN_SOURCE_DIR "/tests/judge_torch_store.py"},
        std::back_inserter(judge.command));
    return run_to_end(judge);
  }
  // Of the script's ranks, which are children of the ranks of ours.
  static std::vector<pid_t> scripts_of(pid_t supervisor) {
    std::vector<pid_t> found;
    for (const pid_t rank : children_of(supervisor)) {
      for (const pid_t script : children_of(rank)) found.push_back(script);
    }
    return found;
  }
  static std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> pids;
    std::error_code error;
    // A child is that of the thread which made it.
    const fs::path tasks = "/proc/" + std::to_string(parent) + "/task";
    for (const auto& task : fs::directory_iterator(tasks, error)) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid = 0; children >> pid;) pids.push_back(pid);
    }
    return pids;
  }
  bool has_kept(int64_t number) const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place_ / "run/program/manifests", error)) {
      if (std::stoll(entry.path().stem().string()) >= number) return true;
    }
    return false;
  }

  ScratchFolder place_;
  std::map<std::string, std::string> environment_;
};

TEST_F(RunsPyTorch, TheExampleGoesOnAfterAKillAndOnAnotherMachine) {
  Process process(start(100'000, "here"));
  ASSERT_TRUE(wait_until([&] { return has_kept(1); })) << process.err_so_far();
  const std::vector<pid_t> before = scripts_of(process.pid());
  ASSERT_EQ(before.size(), 2U);
  kill(before[1], SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const std::vector<pid_t> now = scripts_of(process.pid());
    return now.size() == 2 && std::ranges::find_first_of(now, before) == now.end();
  })) << process.err_so_far();
  ASSERT_TRUE(wait_until([&] { return has_kept(3); })) << process.err_so_far();
  process.signal(SIGTERM);
  const Finished left = process.wait();
  EXPECT_EQ(left.exit_code, 75) << left.err;

  const size_t last = left.out.rfind("step ");
  ASSERT_NE(last, std::string::npos) << left.out;
  const int64_t step = std::stoll(left.out.substr(last + 5));
  const Finished done = run_to_end(start(step + 5, "elsewhere"));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  // The next step that it tells of, and not one of those before.
  const int64_t next = std::min(step + 5, (step / 10 + 1) * 10);
  EXPECT_THAT(done.out, testing::StartsWith("step " + std::to_string(next) + " "));
  const Finished told =
      run_to_end({.command = {TERN_PROGRAM, "report", (place_ / "run").string()}});
  EXPECT_THAT(told.out, AllOf(HasSubstr(": done"), HasSubstr("2, started 3 times")));
}

TEST_F(RunsPyTorch, ItsOwnClientFindsEveryRequestAnswered) {
  const Finished done = judge_store({});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("text refused"), HasSubstr("store is right")));
  EXPECT_THAT(done.err, HasSubstr("the value of the key is no number"));
}

// The judge is right if PyTorch's own server passes, too.
TEST_F(RunsPyTorch, TheStoreOfItsOwnRank0IsJudgedAlike) {
  const Finished done = judge_store({"--leave-port-free"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("text refused"), HasSubstr("store is right")));
}

}  // namespace
}  // namespace tern
