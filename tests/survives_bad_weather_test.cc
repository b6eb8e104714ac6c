// A person's run on a bad disk, with the real programs: it is full, cannot be written, or is taken
// away. The run goes on where it can, says what is wrong, and never loses its last good checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "mount_namespace.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kDiskBytes = 4 << 20;  // some dozens of checkpoints
constexpr int64_t kMiddle = kWholeRunSteps / 10;
constexpr char kGoesOn[] = "checkpoint failed, the run goes on";
// For stories that end the run themselves: it does not end before. A rate that does not depend on
// the length, so that the run can be made shorter afterwards.
const std::vector<std::string> kEndless = {"--set", "schedule.shape=\"constant\"", "--set",
                                           "train.epochs=100000"};
const std::vector<std::string> kMadeShorter = {"--set", "schedule.shape=\"constant\""};

// The folder of all runs is a small disk.
class SurvivesBadWeather : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto refusal = enter_mount_namespace()) GTEST_SKIP() << *refusal;
    disk_.emplace(place_ / "runs", kDiskBytes);
  }

  // Starts a run and waits for its middle.
  std::unique_ptr<Process> start_and_wait(std::vector<std::string> more = {}) {
    auto process =
        std::make_unique<Process>(place_.start(WorkFolder::train("run", std::move(more))));
    EXPECT_TRUE(wait_until([&] { return place_.steps_recorded("run") >= kMiddle; }))
        << process->err_so_far();
    return process;
  }
  // Does something to the disk while the run stands still, so that it cannot end before.
  void meanwhile(const Process& process, const std::function<void()>& act) {
    process.signal(SIGSTOP);
    const std::string stat = "/proc/" + std::to_string(process.pid()) + "/stat";
    ASSERT_TRUE(wait_until([&] { return read_text(stat).find(") T ") != std::string::npos; }));
    ASSERT_LT(place_.steps_recorded("run"), kWholeRunSteps) << "it has ended already";
    act();
    process.signal(SIGCONT);
  }
  static bool wait_for_text(const Process& process, const std::string& text) {
    return wait_until([&] { return process.err_so_far().find(text) != std::string::npos; });
  }

  // A run in a good folder, its weights and every loss; those that `name` has recorded are among
  // them, all of them if it lost none.
  void expect_same_as_on_a_good_disk(const std::string& name,
                                     const std::vector<std::string>& more = {}) {
    WorkFolder good;
    const Finished whole = good.tern(WorkFolder::train("whole", more));
    ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
    const auto expected = good.losses("whole");
    for (const auto& [step, loss] : place_.losses(name)) {
      ASSERT_TRUE(expected.contains(step));
      ASSERT_EQ(loss, expected.at(step)) << "step " << step;
    }
    EXPECT_TRUE(read_text(place_.run(name) / "model.safetensors") ==
                read_text(good.run("whole") / "model.safetensors"));
  }

  // What is on the bad disk, carried to a good one.
  void carry_to_a_good_disk() {
    std::filesystem::copy(place_ / "runs", place_ / "rescued",
                          std::filesystem::copy_options::recursive);
    disk_.reset();
    std::filesystem::remove_all(place_ / "runs");
    std::filesystem::rename(place_ / "rescued", place_ / "runs");
  }

  WorkFolder place_;
  std::optional<SmallDisk> disk_;  // goes before the folder
};

TEST_F(SurvivesBadWeather, AFullDiskIsWarnedOfAndTheRunSavesAgainWhenThereIsSpace) {
  const auto process = start_and_wait();
  meanwhile(*process, [&] { disk_->fill(); });
  ASSERT_TRUE(wait_for_text(*process, kGoesOn)) << process->err_so_far();
  const size_t saved = place_.ledger("run", "checkpoint").size();
  disk_->free_again();
  ASSERT_TRUE(wait_until([&] { return place_.ledger("run", "checkpoint").size() > saved; }))
      << process->err_so_far();
  const Finished finished = process->wait();
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("No space left on device; free some space"));
  EXPECT_EQ(place_.report("run")["status"], "done");
  EXPECT_EQ(place_.report("run")["steps_lost"], 0);
  expect_same_as_on_a_good_disk("run");
}

TEST_F(SurvivesBadWeather, ADiskThatStaysFullFailsTheRunAndItsLastCheckpointGoesOnElsewhere) {
  const auto process = start_and_wait();
  meanwhile(*process, [&] { disk_->fill(); });
  const Finished finished = process->wait();
  EXPECT_EQ(finished.exit_code, kExitUnavailable) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("the last checkpoint could not be written"));
  EXPECT_THAT(finished.err, HasSubstr("No space left on device; free some space"));
  EXPECT_THAT(finished.out, Not(HasSubstr("done")));
  EXPECT_THAT(finished.out, HasSubstr("failed at step 1800"));
  EXPECT_FALSE(std::filesystem::exists(place_.run("run") / "model.safetensors"));
  // Whatever of this could be recorded on that disk, it is no success.
  EXPECT_EQ(place_.report("run")["status"], "failed");

  // The same command cannot even begin there, and says so.
  const Finished again = place_.tern(WorkFolder::train("run"));
  EXPECT_EQ(again.exit_code, kExitUnavailable) << again.err;
  EXPECT_THAT(again.err, HasSubstr("No space left on device"));

  const int64_t saved = place_.ledger("run", "checkpoint").back()["step"];
  disk_->free_again();
  carry_to_a_good_disk();
  const Finished second = place_.tern(WorkFolder::train("run"));
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  ASSERT_EQ(place_.ledger("run", "resume").size(), 1u);
  EXPECT_GE(place_.ledger("run", "resume")[0]["step"], saved);
  EXPECT_EQ(place_.losses("run").size(), static_cast<size_t>(kWholeRunSteps));
  expect_same_as_on_a_good_disk("run");
}

TEST_F(SurvivesBadWeather, AFullDiskAtANoticeIsSaidAndCostsTheStepsSinceTheLastCheckpoint) {
  const auto process = start_and_wait(kEndless);
  disk_->fill();
  ASSERT_TRUE(wait_for_text(*process, kGoesOn)) << process->err_so_far();
  process->signal(SIGTERM);
  const Finished finished = process->wait();
  EXPECT_THAT(finished.out, Not(HasSubstr(" 0 steps lost"))) << "nothing was saved";
  EXPECT_THAT(finished.err, HasSubstr("No space left on device"));
  disk_->free_again();
  const Finished second = place_.tern(WorkFolder::train("run", kMadeShorter));
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  expect_same_as_on_a_good_disk("run", kMadeShorter);
}

TEST_F(SurvivesBadWeather, AFolderThatTurnsReadOnlyIsWarnedOfAndSavedToAgainAfterwards) {
  const auto process = start_and_wait();
  meanwhile(*process, [&] { disk_->make_read_only(); });
  ASSERT_TRUE(wait_for_text(*process, kGoesOn)) << process->err_so_far();
  const size_t saved = place_.ledger("run", "checkpoint").size();
  disk_->make_writable_again();
  ASSERT_TRUE(wait_until([&] { return place_.ledger("run", "checkpoint").size() > saved; }))
      << process->err_so_far();
  const Finished finished = process->wait();
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("Read-only file system; use a folder on a writable"));
  EXPECT_EQ(place_.losses("run").size(), static_cast<size_t>(kWholeRunSteps));
  EXPECT_FALSE(place_.ledger("run", "warning").empty());
  expect_same_as_on_a_good_disk("run");
}

TEST_F(SurvivesBadWeather, AFolderThatStaysReadOnlyFailsTheRunAndLeavesItsLastCheckpoint) {
  const auto process = start_and_wait();
  meanwhile(*process, [&] { disk_->make_read_only(); });
  const Finished finished = process->wait();
  EXPECT_EQ(finished.exit_code, kExitUnavailable) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("failed at step 1800"));
  EXPECT_EQ(place_.report("run")["status"], "failed") << "a read-only run can be reported";
  disk_->make_writable_again();
  const Finished second = place_.tern(WorkFolder::train("run"));
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  EXPECT_GE(place_.ledger("run", "resume")[0]["step"],
            place_.ledger("run", "checkpoint").front()["step"]);
  expect_same_as_on_a_good_disk("run");
}

TEST_F(SurvivesBadWeather, AReadOnlyDiskIsRefusedAtTheStartAndNothingIsHalfMade) {
  disk_->make_read_only();
  const Finished first = place_.tern(WorkFolder::train("run"));
  EXPECT_EQ(first.exit_code, kExitUnavailable) << first.err;
  EXPECT_THAT(first.err, HasSubstr("Read-only file system; use a folder on a writable"));
  EXPECT_TRUE(std::filesystem::is_empty(place_ / "runs"));

  disk_->make_writable_again();
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "5"})).exit_code, kExitDone);
  const std::string ledger = read_text(place_.run("run") / "ledger.jsonl");
  disk_->make_read_only();
  for (const char* more : {"--steps=9", "--fresh"}) {
    const Finished refused = place_.tern(WorkFolder::train("run", {more}));
    EXPECT_EQ(refused.exit_code, kExitUnavailable) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("Read-only file system")) << more;
  }
  EXPECT_EQ(read_text(place_.run("run") / "ledger.jsonl"), ledger);
  EXPECT_FALSE(std::filesystem::exists(place_.run("run.1")));
  EXPECT_EQ(place_.report("run")["step"], 5);
}

// A run whose folder is moved away is not begun anew, without its past, in an empty one.
TEST_F(SurvivesBadWeather, AFolderThatIsMovedAwayEndsTheRunAndIsNotMadeAnew) {
  const auto process = start_and_wait(kEndless);
  std::filesystem::rename(place_.run("run"), place_.run("moved"));
  ASSERT_TRUE(wait_for_text(*process, "is gone: it was moved, removed or unmounted"))
      << process->err_so_far();
  EXPECT_FALSE(std::filesystem::exists(place_.run("run")));
  process->signal(SIGTERM);
  const Finished finished = process->wait();
  EXPECT_THAT(finished.out, Not(HasSubstr(" 0 steps lost")));
  EXPECT_FALSE(std::filesystem::exists(place_.run("run")));

  const Finished second = place_.tern(WorkFolder::train("moved", kMadeShorter));
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  expect_same_as_on_a_good_disk("moved", kMadeShorter);
}

TEST_F(SurvivesBadWeather, AFolderThatIsPutBackIsSavedToAgain) {
  const auto process = start_and_wait();
  meanwhile(*process, [&] { std::filesystem::rename(place_.run("run"), place_.run("moved")); });
  ASSERT_TRUE(wait_for_text(*process, kGoesOn)) << process->err_so_far();
  std::filesystem::rename(place_.run("moved"), place_.run("run"));
  const Finished finished = process->wait();
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_EQ(place_.losses("run").size(), static_cast<size_t>(kWholeRunSteps));
  expect_same_as_on_a_good_disk("run");
}

// Somebody moves a run away while it trains and begins another under its name.
TEST_F(SurvivesBadWeather, ARunUnderTheNameOfOneThatWasMovedAwayIsLeftAlone) {
  const auto old_run = start_and_wait(kEndless);
  old_run->signal(SIGSTOP);
  const std::string stat = "/proc/" + std::to_string(old_run->pid()) + "/stat";
  ASSERT_TRUE(wait_until([&] { return read_text(stat).find(") T ") != std::string::npos; }));
  std::filesystem::rename(place_.run("run"), place_.run("moved"));
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "9"})).exit_code, kExitDone);
  old_run->signal(SIGCONT);
  const Finished finished = old_run->wait();
  EXPECT_EQ(finished.exit_code, kExitLostLease) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("is another folder now"));
  EXPECT_EQ(place_.report("run")["step"], 9);
  EXPECT_EQ(place_.report("run")["status"], "done");
  EXPECT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "20"})).exit_code, kExitDone);
}

}  // namespace
}  // namespace tern
