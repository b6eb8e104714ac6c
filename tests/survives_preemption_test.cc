// A person's run on a machine that goes away, with the real programs: notices, kills, two
// processes, starting anew, going on for longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "core/clock.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/prefix_store.h"
#include "storage/sequence.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiddle = kWholeRunSteps / 10;

class SurvivesPreemption : public testing::Test {
 protected:
  // Starts a run, waits for its middle, does `interrupt`, and returns how it ended.
  Finished interrupt_in_the_middle(const std::string& name, std::vector<std::string> more,
                                   const std::function<void(const Process&)>& interrupt) {
    Process process(place_.start(WorkFolder::train(name, std::move(more))));
    EXPECT_TRUE(wait_until([&] { return place_.steps_recorded(name) >= kMiddle; }));
    interrupt(process);
    return process.wait();
  }

  void expect_same_as_uninterrupted(const std::string& name) {
    const Finished whole = place_.tern(WorkFolder::train("whole"));
    ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
    EXPECT_EQ(place_.losses(name), place_.losses("whole"));
    EXPECT_TRUE(read_text(place_.run(name) / "model.safetensors") ==
                read_text(place_.run("whole") / "model.safetensors"));
  }

  WorkFolder place_;
};

TEST_F(SurvivesPreemption, ATerminationNoticeSavesAndTheSameCommandGoesOn) {
  for (const int number : {SIGTERM, SIGUSR1, SIGHUP}) {
    const std::string name = number == SIGTERM ? "term" : std::to_string(number);
    const Finished first =
        interrupt_in_the_middle(name, {}, [&](const Process& process) { process.signal(number); });
    EXPECT_EQ(first.exit_code, kExitPreempted) << first.err;
    EXPECT_THAT(first.out, HasSubstr("0 steps lost"));
    const auto report = place_.report(name);
    EXPECT_EQ(report["status"], "preempted");
    EXPECT_EQ(report["steps_lost"], 0);
    const int64_t stopped_at = report["step"];
    EXPECT_LT(stopped_at, kWholeRunSteps);
    EXPECT_FALSE(read_text(place_.run(name) / "model.safetensors").empty());

    const Finished second = place_.tern(WorkFolder::train(name));
    EXPECT_EQ(second.exit_code, kExitDone) << second.err;
    EXPECT_THAT(second.err, HasSubstr("resuming"));
    ASSERT_EQ(place_.ledger(name, "resume").size(), 1u);
    EXPECT_EQ(place_.ledger(name, "resume")[0]["step"], stopped_at);
    EXPECT_EQ(place_.report(name)["interruptions"], 1);
    EXPECT_EQ(place_.report(name)["status"], "done");
  }
  expect_same_as_uninterrupted("term");
}

TEST_F(SurvivesPreemption, AHaltFileIsANoticeAndMustBeRemovedToGoOn) {
  const std::vector<std::string> flags = {"--halt-file", "preempt.txt"};
  const Finished first = interrupt_in_the_middle(
      "run", flags, [&](const Process&) { write_text(place_ / "preempt.txt", ""); });
  EXPECT_EQ(first.exit_code, kExitPreempted) << first.err;
  EXPECT_EQ(place_.ledger("run", "notice")[0]["source"], "file preempt.txt");
  const Finished refused = place_.tern(WorkFolder::train("run", flags));
  EXPECT_EQ(refused.exit_code, kExitPrecondition);
  EXPECT_THAT(refused.err, HasSubstr("remove it to train"));
  std::filesystem::remove(place_ / "preempt.txt");
  EXPECT_EQ(place_.tern(WorkFolder::train("run", flags)).exit_code, kExitDone);
}

TEST_F(SurvivesPreemption, CtrlCSavesAndLeavesAsStopped) {
  const Finished first =
      interrupt_in_the_middle("run", {}, [](const Process& process) { process.signal(SIGINT); });
  EXPECT_EQ(first.exit_code, kExitStopped) << first.err;
  EXPECT_EQ(place_.report("run")["status"], "stopped");
  EXPECT_EQ(place_.report("run")["steps_lost"], 0);
  EXPECT_EQ(place_.tern(WorkFolder::train("run")).exit_code, kExitDone);
}

TEST_F(SurvivesPreemption, AKillWithoutNoticeIsReportedAndResumedToTheBit) {
  const Finished first =
      interrupt_in_the_middle("run", {}, [](const Process& process) { process.signal(SIGKILL); });
  EXPECT_EQ(first.exit_code, -SIGKILL);
  const auto report = place_.report("run");
  EXPECT_EQ(report["status"], "failed");
  EXPECT_THAT(report["reason"].get<std::string>(), HasSubstr("killed"));
  const int64_t reached = place_.steps_recorded("run");

  const Finished second = place_.tern(WorkFolder::train("run"));
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  const auto resume = place_.ledger("run", "resume");
  ASSERT_EQ(resume.size(), 1u);
  EXPECT_EQ(resume[0]["step"].get<int64_t>() + resume[0]["steps_lost"].get<int64_t>(), reached);
  EXPECT_EQ(place_.report("run")["steps_lost"], resume[0]["steps_lost"]);
  expect_same_as_uninterrupted("run");
}

TEST_F(SurvivesPreemption, ASecondProcessIsRefusedAndNamesTheFirst) {
  Process first(place_.start(WorkFolder::train("run", {"--set", "train.epochs=100000"})));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("run") >= 10; }));
  const Finished second = place_.tern(WorkFolder::train("run", {"--set", "train.epochs=100000"}));
  EXPECT_EQ(second.exit_code, kExitPrecondition);
  EXPECT_THAT(second.err, HasSubstr("pid " + std::to_string(first.pid())));
  const Finished fresh = place_.tern(WorkFolder::train("run", {"--fresh"}));
  EXPECT_EQ(fresh.exit_code, kExitPrecondition) << "--fresh moved a live run away";
  EXPECT_EQ(place_.report("run")["status"], "running");
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, kExitPreempted);
}

TEST_F(SurvivesPreemption, ANoticeWhileItStartsIsANoticeToo) {
  // Wherever it strikes: `tern` blocks signals first thing, and tern-train sees what is pending.
  for (int i = 0; i < 5; ++i) {
    Process process(place_.start(WorkFolder::train("run", {"--set", "train.epochs=100000"})));
    const std::string status = "/proc/" + std::to_string(process.pid()) + "/status";
    ASSERT_TRUE(wait_until([&] {
      // SIGTERM is bit 14 of the mask.
      const std::string text = read_text(status);
      const size_t blocked = text.find("SigBlk:");
      return blocked != std::string::npos &&
             (std::stoull(text.substr(blocked + 7), nullptr, 16) & (1U << 14U)) != 0;
    }));
    process.signal(SIGTERM);
    const Finished finished = process.wait();
    EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
  }
}

TEST_F(SurvivesPreemption, AReaderThatGoesAwayDoesNotEndTheRun) {
  Process::Start start = place_.start({});
  start.command = {"bash", "-c",
                   std::string("set -o pipefail; ") + TERN_PROGRAM +
                       " train run.toml --run run --set train.epochs=30 2>&1 | head -n 1"};
  const Finished finished = run_to_end(start);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(place_.report("run")["status"], "done");
}

// A machine that was paused finds that another has taken its run: it stops and writes nothing more.
TEST_F(SurvivesPreemption, AProcessThatWasReplacedStopsAndWritesNothing) {
  Process old_holder(place_.start(
      WorkFolder::train("run", {"--set", "train.epochs=100000", "--set", "lease.term=\"1s\""})));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("run") >= 10; }));
  old_holder.signal(SIGSTOP);
  // Stopped, and not in the middle of a write that still lands.
  const std::string stat = "/proc/" + std::to_string(old_holder.pid()) + "/stat";
  ASSERT_TRUE(wait_until([&] { return read_text(stat).find(") T ") != std::string::npos; }));
  RealFileDoor door;
  SystemClock clock;
  auto store = DiskStore::open(place_.run("run"), door);
  PrefixStore checkpoints(**store, "checkpoints");
  Holder successor = *this_process();
  successor.boot_id = "another boot";
  const Sequence::Setup setup{.store = &checkpoints,
                              .clock = &clock,
                              .me = successor,
                              .lease = {.term = Milliseconds(300)}};
  const auto taken = Sequence::take(setup, std::stop_token());
  ASSERT_TRUE(taken.has_value()) << taken.error().to_string();
  old_holder.signal(SIGCONT);
  const Finished finished = old_holder.wait();
  EXPECT_EQ(finished.exit_code, kExitLostLease) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("lost the run"));
  EXPECT_TRUE(place_.ledger("run", "end").empty());
  EXPECT_FALSE(std::filesystem::exists(place_.run("run") / "model.safetensors"));
}

// A run whose holder is, or was, on another machine: one waits for its lease to run out.
TEST_F(SurvivesPreemption, ANoticeEndsTheWaitForAHolderOnAnotherMachine) {
  RealFileDoor door;
  SystemClock clock;
  auto store = DiskStore::open(place_.run("run"), door);
  PrefixStore checkpoints(**store, "checkpoints");
  Holder elsewhere = *this_process();
  elsewhere.host = "far-away";
  elsewhere.boot_id = "another boot";
  const Sequence::Setup setup{.store = &checkpoints, .clock = &clock, .me = elsewhere};
  ASSERT_TRUE(Sequence::take(setup, std::stop_token()).has_value());

  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--fresh"}}) {
    std::vector<std::string> words = WorkFolder::train("run", {"--set", "lease.term=\"1h\""});
    words.insert(words.end(), more.begin(), more.end());
    Process process(place_.start(words));
    ASSERT_TRUE(
        wait_until([&] { return process.err_so_far().find("far-away") != std::string::npos; }));
    process.signal(SIGTERM);
    const Finished finished = process.wait();
    EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
    EXPECT_FALSE(std::filesystem::exists(place_.run("run.1")));
  }

  const Finished taken =
      place_.tern(WorkFolder::train("run", {"--steps", "3", "--set", "lease.term=\"200ms\""}));
  EXPECT_EQ(taken.exit_code, kExitDone) << taken.err;
}

TEST_F(SurvivesPreemption, FreshKeepsTheOldRunUnderANumber) {
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "5"})).exit_code, kExitDone);
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "7", "--fresh"})).exit_code,
            kExitDone);
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "9", "--fresh"})).exit_code,
            kExitDone);
  EXPECT_EQ(place_.report("run.1")["step"], 5);
  EXPECT_EQ(place_.report("run.2")["step"], 7);
  EXPECT_EQ(place_.report("run")["step"], 9);
  EXPECT_EQ(place_.ledger("run", "resume").size(), 0u);
}

TEST_F(SurvivesPreemption, StepsStopsThereAndALargerNumberGoesOnAsIfItHadNot) {
  for (const char* steps : {"7", "200", "1800"}) {
    const Finished finished = place_.tern(WorkFolder::train("run", {"--steps", steps}));
    ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
    const auto report = place_.report("run");
    EXPECT_EQ(report["step"], std::atoi(steps));
    EXPECT_EQ(report["status"], "done");
    EXPECT_TRUE(report["top1"].is_number());
    EXPECT_EQ(report["interruptions"], 0);
  }
  expect_same_as_uninterrupted("run");
}

TEST_F(SurvivesPreemption, AStopAtTheEndOfAnEpochWithoutEvaluationIsEvaluatedToo) {
  // 6 steps an epoch; run.toml evaluates every 30th.
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "6"})).exit_code, kExitDone);
  EXPECT_TRUE(place_.report("run")["top1"].is_number());
  // What it had passed already is said to be so.
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "2"})).exit_code, kExitDone);
  EXPECT_THAT(place_.report("run")["reason"].get<std::string>(),
              HasSubstr("already passed step 2"));
}

TEST_F(SurvivesPreemption, ARunWhoseResultCannotBeWrittenIsNotDone) {
  Process::Start start = place_.start({});
  // Files of at most 8 blocks: the ledger still fits, a checkpoint does not.
  start.command = {"bash", "-c",
                   std::string("trap '' XFSZ; ulimit -f 8; exec ") + TERN_PROGRAM +
                       " train run.toml --run run --steps 5 --set model.width=32"};
  const Finished finished = run_to_end(start);
  EXPECT_EQ(finished.exit_code, kExitUnavailable) << finished.err;
  EXPECT_EQ(place_.report("run")["status"], "failed");
  EXPECT_EQ(place_.report("run")["steps_lost"], 5);
}

TEST_F(SurvivesPreemption, AStderrThatCannotBeWrittenDoesNotEndTheRun) {
  for (const char* redirect : {" 2>/dev/full", " 2>&-", " >&- 2>&-"}) {
    Process::Start start = place_.start({});
    start.command = {
        "bash", "-c",
        std::string(TERN_PROGRAM) + " train run.toml --fresh --run run --steps 5" + redirect};
    EXPECT_EQ(run_to_end(start).exit_code, kExitDone) << redirect;
    EXPECT_EQ(place_.report("run")["step"], 5) << redirect;
  }
}

TEST_F(SurvivesPreemption, AResumeKeepsTheRecordedThreadCount) {
  const std::vector<std::string> three = {"--steps", "5", "--set", "train.threads=3"};
  ASSERT_EQ(place_.tern(WorkFolder::train("run", three)).exit_code, kExitDone);
  // Left open, the run's own count is taken, whatever this machine has.
  const Finished resumed =
      place_.tern(WorkFolder::train("run", {"--steps", "9", "--set", "train.threads=0"}));
  ASSERT_EQ(resumed.exit_code, kExitDone) << resumed.err;
  EXPECT_EQ(place_.ledger("run", "resume")[0]["threads"], 3);
  const Finished other =
      place_.tern(WorkFolder::train("run", {"--steps", "12", "--set", "train.threads=2"}));
  EXPECT_EQ(other.exit_code, kExitPrecondition);
  EXPECT_THAT(other.err, HasSubstr("the run has 3, you ask for 2"));
}

TEST_F(SurvivesPreemption, ATimeLimitEndsTheRunWithACheckpoint) {
  const std::vector<std::string> limited = {"--set", "train.time_limit=\"300ms\"", "--set",
                                            "train.epochs=100000"};
  const Finished finished = place_.tern(WorkFolder::train("run", limited));
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(place_.report("run")["reason"].get<std::string>(), HasSubstr("time limit"));
  EXPECT_LT(place_.report("run")["step"], 600'000);
}

}  // namespace
}  // namespace tern
