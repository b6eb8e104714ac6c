// A person tries something else from the middle of a run: branches, with the real programs. And
// who is told when a process ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kFork = 60;
constexpr int64_t kEnd = 120;

using Files = std::map<std::string, std::string>;

// Every file of a folder, with its bytes.
Files files_of(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().lexically_relative(folder).string()] = read_text(entry.path());
  }
  return files;
}

class Branches : public testing::Test {
 protected:
  // A run that stopped at kFork, and so has a checkpoint there.
  void SetUp() override { train_to("old", kFork); }

  void train_to(const std::string& name, int64_t step, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--steps", std::to_string(step)});
    const Finished finished = place_.tern(WorkFolder::train(name, more));
    ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  }
  std::string weights(const std::string& name) const {
    return read_text(place_.run(name) / "model.safetensors");
  }
  // The losses of the steps after kFork.
  std::map<int64_t, double> losses_after_fork(const std::string& name) const {
    auto losses = place_.losses(name);
    losses.erase(losses.begin(), losses.upper_bound(kFork));
    return losses;
  }

  WorkFolder place_;
};

TEST_F(Branches, WithTheSameOptionsEndWithTheSameBitsAsTheirSource) {
  const Files before = files_of(place_.run("old"));
  train_to("branch", kEnd, {"--from", "old@60"});
  EXPECT_EQ(files_of(place_.run("old")), before) << "a branch changed its source";
  train_to("old", kEnd);

  EXPECT_EQ(losses_after_fork("branch").size(), static_cast<size_t>(kEnd - kFork));
  EXPECT_EQ(losses_after_fork("branch"), losses_after_fork("old"));
  EXPECT_EQ(place_.losses("branch").begin()->first, kFork + 1);
  EXPECT_FALSE(weights("branch").empty());
  EXPECT_TRUE(weights("branch") == weights("old"));

  const auto start = place_.ledger("branch", "start");
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0]["step"], kFork);
  EXPECT_EQ(start[0]["from"]["step"], kFork);
  EXPECT_EQ(start[0]["from"]["run"], "runs/old");
  EXPECT_TRUE(start[0]["from"]["checkpoint"].is_number_integer());
  EXPECT_EQ(place_.report("branch")["status"], "done");
  EXPECT_EQ(place_.report("branch")["steps_lost"], 0);
}

TEST_F(Branches, WithAnotherLearningRateDiffer) {
  train_to("same", kEnd, {"--from", "old"});
  train_to("other", kEnd, {"--from", "old", "--set", "optimizer.learning_rate=0.005"});
  const auto same = losses_after_fork("same");
  const auto other = losses_after_fork("other");
  ASSERT_EQ(other.size(), same.size());
  // The first step of the branch is computed with the weights of the source.
  EXPECT_EQ(other.begin()->second, same.begin()->second);
  EXPECT_NE(other, same);
  EXPECT_FALSE(weights("other") == weights("same"));
}

TEST_F(Branches, NeedTheirSourceOnlyOnceAndTheSameCommandResumes) {
  const std::vector<std::string> command =
      WorkFolder::train("branch", {"--from", "old@60", "--set", "optimizer.learning_rate=0.005"});
  Process process(place_.start(command));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("branch") >= 2 * kFork; }));
  process.signal(SIGTERM);
  const Finished first = process.wait();
  EXPECT_EQ(first.exit_code, kExitPreempted) << first.err;
  const int64_t reached = place_.report("branch")["step"];
  EXPECT_GT(reached, kFork);

  std::filesystem::rename(place_.run("old"), place_ / "elsewhere");
  std::vector<std::string> again = command;
  again.insert(again.end(), {"--steps", std::to_string(reached + 30)});
  const Finished second = place_.tern(again);
  ASSERT_EQ(second.exit_code, kExitDone) << second.err;
  const auto resume = place_.ledger("branch", "resume");
  ASSERT_EQ(resume.size(), 1u);
  EXPECT_EQ(resume[0]["step"], reached);
  EXPECT_EQ(place_.ledger("branch", "start").size(), 1u);
}

TEST_F(Branches, AKillRightAfterTheForkLosesNothingOfIt) {
  // The first thing that a branch does is to save what it begins with.
  train_to("branch", kFork, {"--from", "old@60"});
  std::filesystem::remove_all(place_.run("old"));
  train_to("branch", kEnd, {"--from", "old@60"});
  EXPECT_EQ(place_.losses("branch").begin()->first, kFork + 1);
}

TEST_F(Branches, CanBeMadeOfARunThatIsBeingTrained) {
  Process source(place_.start(WorkFolder::train("old", {"--set", "train.epochs=100000"})));
  // The first evaluation is after 30 epochs.
  ASSERT_TRUE(wait_until([&] {
    const auto saved = place_.ledger("old", "checkpoint");
    return std::ranges::any_of(saved, [](const auto& record) { return record["best"] == true; });
  }));
  for (const std::string from : {"old", "old@best"}) {
    const Finished branch = place_.tern(
        WorkFolder::train("branch", {"--from", from, "--fresh", "--set", "train.time_limit=\"1s\"",
                                     "--set", "train.epochs=100000"}));
    EXPECT_EQ(branch.exit_code, kExitDone) << branch.err;
    EXPECT_GT(place_.ledger("branch", "start")[0]["step"].get<int64_t>(), 0);
  }
  const int64_t then = place_.steps_recorded("old");
  EXPECT_TRUE(wait_until([&] { return place_.steps_recorded("old") > then; }))
      << "the source stopped";
  source.signal(SIGTERM);
  const Finished finished = source.wait();
  EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
  EXPECT_THAT(finished.err, Not(HasSubstr("lost the run")));
}

TEST_F(Branches, OfWhatIsNotThereSayWhatIs) {
  const Finished missing = place_.tern(WorkFolder::train("branch", {"--from", "old@59"}));
  EXPECT_EQ(missing.exit_code, kExitNotFound);
  EXPECT_THAT(missing.err, HasSubstr("no checkpoint of step 59"));
  EXPECT_THAT(missing.err, HasSubstr("there are those of steps 60, "));
  EXPECT_FALSE(std::filesystem::exists(place_.run("branch"))) << "nothing was begun";

  const Finished no_run = place_.tern(WorkFolder::train("branch", {"--from", "nowhere@5"}));
  EXPECT_EQ(no_run.exit_code, kExitNotFound);
  EXPECT_THAT(no_run.err, HasSubstr("runs/nowhere"));
  EXPECT_FALSE(std::filesystem::exists(place_.run("nowhere")));

  const Finished no_step = place_.tern(WorkFolder::train("branch", {"--from", "old@last"}));
  EXPECT_EQ(no_step.exit_code, kExitUsage);
  const Finished itself = place_.tern(WorkFolder::train("old", {"--from", "old@60"}));
  EXPECT_EQ(itself.exit_code, kExitUsage);
  EXPECT_THAT(itself.err, HasSubstr("--run"));
}

TEST_F(Branches, ThatDiedBeforeTheirFirstSaveAreNotTakenForAnotherRun) {
  train_to("branch", kFork + 1, {"--from", "old"});
  std::filesystem::remove_all(place_.run("branch") / "checkpoints");  // as if it had saved nothing
  const Finished plain = place_.tern(WorkFolder::train("branch"));
  EXPECT_EQ(plain.exit_code, kExitPrecondition);
  EXPECT_THAT(plain.err, HasSubstr("give --from"));
  const Finished elsewhere =
      place_.tern(WorkFolder::train("branch", {"--from", "old@54", "--steps", "70"}));
  EXPECT_EQ(elsewhere.exit_code, kExitPrecondition) << elsewhere.err;
  EXPECT_THAT(elsewhere.err, HasSubstr("holds a run that began from runs/old@60"));
  train_to("branch", kFork + 1, {"--from", "./runs/old/@60"});  // the same, spelt otherwise
}

TEST_F(Branches, OfNothingLeaveTheOldRunWhereItIs) {
  train_to("branch", kFork + 1, {"--from", "old"});
  const Finished fresh =
      place_.tern(WorkFolder::train("branch", {"--fresh", "--from", "old@9999"}));
  EXPECT_EQ(fresh.exit_code, kExitNotFound) << fresh.err;
  EXPECT_EQ(place_.report("branch")["step"], kFork + 1);
  EXPECT_FALSE(std::filesystem::exists(place_.run("branch.1")));
}

TEST_F(Branches, WhatWouldMakeThePositionMeaninglessIsRefused) {
  const Finished refused = place_.tern(WorkFolder::train(
      "branch", {"--from", "old", "--set", "train.batch=8", "--set", "train.seed=9"}));
  EXPECT_EQ(refused.exit_code, kExitPrecondition);
  EXPECT_THAT(refused.err, HasSubstr("train.batch: the other run has 16, you ask for 8"));
  EXPECT_THAT(refused.err, HasSubstr("train.seed: the other run has 1, you ask for 9"));
  // And leaves nothing behind that a right command would stumble over.
  train_to("branch", kFork + 1, {"--from", "old"});
}

TEST_F(Branches, ADamagedCheckpointIsNamedAndNotReplacedByAnother) {
  train_to("old", kEnd);
  for (const auto& blob :
       std::filesystem::recursive_directory_iterator(place_.run("old") / "checkpoints/blobs")) {
    if (!blob.is_regular_file()) continue;
    std::string bytes = read_text(blob.path());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text(blob.path(), bytes);
  }
  const Finished refused = place_.tern(WorkFolder::train("branch", {"--from", "old"}));
  EXPECT_EQ(refused.exit_code, kExitCorrupt);
  EXPECT_THAT(refused.err, HasSubstr("is damaged"));
  EXPECT_TRUE(place_.losses("branch").empty());
}

class OnEventStory : public testing::Test {
 protected:
  // Says in a file what it was told.
  static std::vector<std::string> with_event(const std::string& name,
                                             std::vector<std::string> more) {
    more.insert(more.end(), {"--on-event",
                             "echo $TERN_EVENT $TERN_RUN $TERN_STEP $TERN_STEPS_LOST "
                             "$TERN_EXIT_CODE \"$TERN_REASON\" >>told"});
    return WorkFolder::train(name, std::move(more));
  }
  std::string told() const { return read_text(place_ / "told"); }

  WorkFolder place_;
};

TEST_F(OnEventStory, TheEndIsToldWhenEverythingIsSaved) {
  const std::string look =
      "test -s runs/run/model.safetensors && test -s runs/run/report.json && "
      "grep -q '\"end\"' runs/run/ledger.jsonl && echo saved >told";
  const Finished finished =
      place_.tern(WorkFolder::train("run", {"--steps", "5", "--on-event", look}));
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_EQ(told(), "saved\n");
}

TEST_F(OnEventStory, EveryWayToEndIsTold) {
  ASSERT_EQ(place_.tern(with_event("run", {"--steps", "5"})).exit_code, kExitDone);
  EXPECT_EQ(told(), "done runs/run 5 0 0 step 5 as asked\n");

  for (const int number : {SIGTERM, SIGINT}) {
    std::filesystem::remove(place_ / "told");
    const int64_t from = place_.steps_recorded("run");
    Process process(place_.start(with_event("run", {"--set", "train.epochs=100000"})));
    ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("run") > from + 10; }));
    process.signal(number);
    const int code = process.wait().exit_code;
    const bool is_preempt = number == SIGTERM;
    EXPECT_EQ(code, is_preempt ? kExitPreempted : kExitStopped);
    EXPECT_THAT(told(),
                testing::StartsWith((is_preempt ? "preempted runs/run " : "stopped runs/run ") +
                                    std::to_string(place_.steps_recorded("run")) + " 0 " +
                                    std::to_string(code) + " "));
  }
}

TEST_F(OnEventStory, ARunThatCannotBeginHasFailed) {
  const Finished finished =
      place_.tern(with_event("run", {"--set", "data.path=\"nowhere\"", "--steps", "5"}));
  EXPECT_EQ(finished.exit_code, kExitNotFound);
  EXPECT_THAT(told(), testing::StartsWith("failed runs/run 0 0 3 "));
  EXPECT_THAT(told(), HasSubstr("nowhere"));
}

TEST_F(OnEventStory, ACommandThatFailsIsAWarningAndChangesNothing) {
  const Finished finished = place_.tern(
      WorkFolder::train("run", {"--steps", "5", "--on-event", "echo heard >&2; exit 9"}));
  EXPECT_EQ(finished.exit_code, kExitDone);
  EXPECT_THAT(finished.err, HasSubstr("heard"));
  EXPECT_THAT(finished.err, HasSubstr("exited with 9"));
  EXPECT_EQ(place_.report("run")["status"], "done");
}

}  // namespace
}  // namespace tern
