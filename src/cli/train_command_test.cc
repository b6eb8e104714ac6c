// What tern-train finds when `tern train` has become it. The real one is tested in tests/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "cli/command.h"
#include "cli/supervise_ranks.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

class TrainCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "train_command_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    fs::create_directories(folder_ / "torch/lib");
    std::ofstream(folder_ / "torch/lib/libtorch_cpu.so");
    std::ofstream(folder_ / "torch/version.py") << "__version__ = '2.11.0'\n";
    std::ofstream(folder_ / "my.toml");
    surroundings_ = {.executable = folder_ / "tern", .libtorch = folder_ / "torch"};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void make_trainer(const std::string& text) {
    const fs::path trainer = folder_ / "libexec/tern-train";
    fs::create_directories(trainer.parent_path());
    std::ofstream(trainer) << text;
    fs::permissions(trainer, fs::perms::owner_all);
  }

  // Returns only if tern-train could not be started.
  Result<int> train(const Arguments& more = {}) {
    Arguments arguments = {(folder_ / "my.toml").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return train_command(surroundings_, arguments);
  }

  fs::path folder_;
  Surroundings surroundings_;
};

TEST_F(TrainCommandTest, NoticesWaitForTheTrainerToLook) {
  make_trainer(
      "#!/bin/sh\n"
      "kill -TERM $$; kill -USR1 $$; kill -INT $$\n"
      "echo still here >&2\n"
      "exit 75\n");
  EXPECT_EXIT(train(), testing::ExitedWithCode(75), "still here");
}

TEST_F(TrainCommandTest, ATrainerThatDoesNotStartIsAnError) {
  make_trainer(
      "\x7f"
      "ELF for another machine");
  // In a child, which takes the blocked signals with it.
  const auto code_of_error = [this] { _exit(static_cast<int>(train().error().code)); };
  EXPECT_EXIT(code_of_error(), testing::ExitedWithCode(static_cast<int>(Code::unavailable)), "");
}

TEST_F(TrainCommandTest, AWrongRunFileIsRefusedBeforeSignalsAreHeldBack) {
  make_trainer("#!/bin/sh\n");
  std::ofstream(folder_ / "my.toml") << "nonsense = 1\n";
  ASSERT_FALSE(train());
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGINT));
}

TEST_F(TrainCommandTest, WithRanksItStaysAndStartsSeveralTrainers) {
  make_trainer(
      "#!/bin/sh\n"
      "echo id=$TERN_RANK_ID at=$TERN_RANK_ADDRESS threads=$TERN_THREADS \"$@\" >&2\n"
      "exit 75\n");
  const auto supervise = [this] {
    const Result<int> code = train({"--ranks", "3", "--set", "train.threads=2"});
    _exit(code ? *code : 99);
  };
  EXPECT_EXIT(supervise(), testing::ExitedWithCode(75),
              "\\[rank 2\\] id=2 at=127.0.0.1:[0-9]+ threads=2 .*my.toml --ranks 3");
}

TEST_F(TrainCommandTest, ATrainerThatDoesNotStartIsAnErrorWithRanksToo) {
  make_trainer(
      "\x7f"
      "ELF for another machine");
  const auto supervise = [this] { _exit(static_cast<int>(train({"--ranks", "2"}).error().code)); };
  EXPECT_EXIT(supervise(), testing::ExitedWithCode(static_cast<int>(Code::unavailable)), "");
}

TEST_F(TrainCommandTest, ARankThatIsStartedAgainDoesNotBeginTheRunAnew) {
  const TrainerStart start{.arguments = {"my.toml", "--fresh", "--ranks", "2"},
                           .threads = 1,
                           .started = Nanoseconds(5),
                           .programs = TrainerPrograms{"tern-train", folder_}};
  const RankCommand first = rank_command(surroundings_, start, /*has_begun=*/false);
  EXPECT_THAT(first.arguments, testing::ElementsAre("my.toml", "--fresh", "--ranks", "2"));
  EXPECT_THAT(first.environment, testing::Contains("TERN_STARTED_NS=5"));
  const RankCommand again = rank_command(surroundings_, start, /*has_begun=*/true);
  EXPECT_THAT(again.arguments, testing::ElementsAre("my.toml", "--ranks", "2"));
  EXPECT_THAT(again.environment, testing::Not(testing::Contains("TERN_STARTED_NS=5")));
  EXPECT_THAT(again.environment, testing::Contains("TERN_THREADS=1"));
}

TEST_F(TrainCommandTest, OneRankIsPlainTraining) {
  make_trainer("#!/bin/sh\necho id=${TERN_RANK_ID:-none} >&2\n");
  EXPECT_EXIT(train({"--ranks", "1"}), testing::ExitedWithCode(0), "id=none");
}

}  // namespace
}  // namespace tern
