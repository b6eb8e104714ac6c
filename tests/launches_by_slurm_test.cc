// Launched runs under a real Slurm: requeued by Slurm and by us, stopped, and gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <iterator>

#include "any_program_log.h"
#include "fleet/marked_processes.h"
#include "slurm_cluster.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class LaunchesBySlurm : public testing::Test {
 protected:
  Finished tern(const std::vector<std::string>& words) const {
    Process::Start start = place_.start(words);
    start.environment = cluster_.environment();
    start.environment["XDG_STATE_HOME"] = (place_ / "state").string();
    start.environment.insert(environment_.begin(), environment_.end());
    return run_to_end(start);
  }
  nlohmann::json status(const std::string& name) const {
    const Finished said = tern({"status", name, "--json"});
    EXPECT_EQ(said.exit_code, kExitDone) << said.err;
    return nlohmann::json::parse(said.out, nullptr, false);
  }
  nlohmann::json job_of(const std::string& name) const {
    return status(name)["machines"][0]["slurm"];
  }
  std::string number_of(const std::string& name) const { return job_of(name)["job"].dump(); }

  // Waits until the job was requeued so often and runs again. The job itself sees to it that this
  // is soon; where the machine is too busy for that, Slurm would wait for two minutes.
  bool comes_back(const std::string& name, int64_t restarts) {
    const std::string number = number_of(name);
    const auto is_back = [&] {
      const nlohmann::json job = job_of(name);
      return job["restarts"] == restarts && job["state"] == "RUNNING";
    };
    return wait_until(is_back) || wait_until([&] {
             cluster_.start_now(number);
             return is_back();
           });
  }
  // The same where a test need not see that the job shortens Slurm's pause.
  bool is_brought_back(const std::string& name, int64_t restarts) {
    const std::string number = number_of(name);
    return wait_until([&] {
      cluster_.start_now(number);
      const nlohmann::json job = job_of(name);
      return job["restarts"] == restarts && job["state"] == "RUNNING";
    });
  }
  // Whether it has recorded more steps than there are now.
  bool goes_on(const std::string& name) const {
    const int64_t before = place_.steps_recorded(name);
    return wait_until([&] { return place_.steps_recorded(name) > before; });
  }
  bool leaves_nothing(const nlohmann::json& was, size_t machines) const {
    for (size_t i = 0; i < machines; ++i) {
      const std::string mark = was["id"].get<std::string>() + "-" + std::to_string(i);
      EXPECT_THAT(find_marked_processes(mark), IsEmpty());
    }
    EXPECT_EQ(cluster_.ask({"squeue", "-h"}), "");
    return !fs::exists(place_ / "state/tern/slurm") && fs::is_empty(place_ / "state/tern/runs");
  }

  WorkFolder place_;
  SlurmCluster cluster_{place_ / "slurm"};
  std::map<std::string, std::string> environment_;  // besides
};

TEST_F(LaunchesBySlurm, ATrainingGoesOnAfterALostNodeAndANotice) {
  const Finished launched = tern({"launch", "run.toml", "--name", "night", "--on", "slurm", "--run",
                                  "runs/night", "--set", "train.epochs=100000", "--detach"});
  ASSERT_EQ(launched.exit_code, kExitDone) << launched.err;
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("night") >= 20; }))
      << tern({"logs", "night"}).out;
  const nlohmann::json began = status("night");
  EXPECT_EQ(began["machines"][0]["state"], "running");
  EXPECT_EQ(tern({"connect", "night", "0", "--", "echo", "hello"}).out, "hello\n");

  const std::string node = began["machines"][0]["address"];
  cluster_.ask({"scontrol", "update", "NodeName=" + node, "State=DOWN", "Reason=lost"});
  ASSERT_TRUE(comes_back("night", 1)) << tern({"status", "night"}).out;
  ASSERT_TRUE(goes_on("night")) << tern({"logs", "night"}).out;
  EXPECT_LE(place_.report("night")["steps_lost"], 1);

  const Finished drilled = tern({"preempt", "night"});
  EXPECT_EQ(drilled.exit_code, kExitDone) << drilled.err;
  ASSERT_TRUE(comes_back("night", 2)) << tern({"status", "night"}).out;
  ASSERT_TRUE(goes_on("night")) << tern({"logs", "night"}).out;
  EXPECT_LE(place_.report("night")["steps_lost"], 1);
  EXPECT_THAT(tern({"status", "night"}).out,
              AllOf(HasSubstr("RUNNING on "), HasSubstr("requeued 2 times")));
  EXPECT_THAT(tern({"logs", "night"}).out,
              AllOf(HasSubstr("back to the queue"), HasSubstr("resuming")));

  const Finished stopped = tern({"stop", "night"});
  EXPECT_EQ(stopped.exit_code, kExitDone) << stopped.err;
  EXPECT_EQ(stopped.out, "slurm-0: ended with 10\n");
  EXPECT_EQ(place_.report("night")["status"], "stopped");
  EXPECT_EQ(cluster_.state_of(number_of("night")), "FAILED");  // it did not end with 0

  const nlohmann::json was = status("night");
  const Finished down = tern({"down", "night"});
  EXPECT_EQ(down.exit_code, kExitDone) << down.err;
  EXPECT_TRUE(leaves_nothing(was, 1));
}

TEST_F(LaunchesBySlurm, ATrainingOnThreeNodesGoesOnAfterAnyOfThemIsLost) {
  const Finished launched =
      tern({"launch", "run.toml", "--name", "three", "--on", "slurm", "--machines", "3", "--run",
            "runs/three", "--set", "train.epochs=100000", "--detach"});
  ASSERT_EQ(launched.exit_code, kExitDone) << launched.err;
  const auto is_complete = [&](int64_t after) {
    return wait_until([&] {
      const auto groups = place_.ledger("three", "ranks");
      return !groups.empty() && groups.back()["world"] == 3 &&
             place_.steps_recorded("three") > after;
    });
  };
  ASSERT_TRUE(is_complete(20)) << tern({"logs", "three"}).out;
  ASSERT_EQ(status("three")["machines"].size(), 3U);

  // The last one, then the first, which has the job's own process.
  for (const size_t lost : {2, 0}) {
    const std::string node = status("three")["machines"][lost]["address"];
    cluster_.ask({"scontrol", "update", "NodeName=" + node, "State=DOWN", "Reason=lost"});
    ASSERT_TRUE(wait_until([&] { return job_of("three")["state"] != "RUNNING"; }));
    const int64_t steps = place_.steps_recorded("three");
    cluster_.resume(node);
    // A node that begins again while it still ends the job's own process would refuse the job.
    ASSERT_TRUE(lost == 0 ? comes_back("three", 2) : is_brought_back("three", 1))
        << tern({"status", "three"}).out << tern({"logs", "three"}).out;
    ASSERT_TRUE(is_complete(steps + 20))
        << tern({"status", "three"}).out << tern({"logs", "three"}).out;
    EXPECT_LE(place_.report("three")["steps_lost"], 1);
  }
  EXPECT_THAT(tern({"logs", "three"}).out, HasSubstr("resuming"));

  const Finished stopped = tern({"stop", "three"});
  EXPECT_EQ(stopped.exit_code, kExitDone) << stopped.err;
  EXPECT_EQ(stopped.out,
            "slurm-0: ended with 10\nslurm-1: ended with 10\nslurm-2: ended with 10\n");
  EXPECT_EQ(place_.report("three")["status"], "stopped");
  const nlohmann::json was = status("three");
  const Finished down = tern({"down", "three"});
  EXPECT_EQ(down.exit_code, kExitDone) << down.err;
  EXPECT_TRUE(leaves_nothing(was, 3));
}

TEST_F(LaunchesBySlurm, AProgramOnTwoNodesGoesOnAfterANoticeAndAfterItsOwnExitCode) {
  const fs::path log = place_ / "log";
  fs::create_directory(log);
  std::vector<std::string> words = {"launch",     "--name", "pair",  "--on",      "slurm",
                                    "--machines", "2",      "--run", "runs/pair", "--detach"};
  std::ranges::copy(any_program(1'000'000, log), std::back_inserter(words));
  const Finished launched = tern(words);
  ASSERT_EQ(launched.exit_code, kExitDone) << launched.err;
  ASSERT_TRUE(wait_until([&] { return step_of_both(log) >= 12; })) << tern({"logs", "pair"}).out;

  // One of the two is told to leave.
  const Finished drilled = tern({"preempt", "pair", "--machine", "1"});
  EXPECT_EQ(drilled.exit_code, kExitDone) << drilled.err;
  ASSERT_TRUE(is_brought_back("pair", 1)) << tern({"status", "pair"}).out;
  const int64_t left_at = step_of_both(log);
  ASSERT_TRUE(wait_until([&] { return step_of_both(log) >= left_at + 12; }))
      << tern({"logs", "pair"}).out;
  // The program itself wants to be started again.
  kill(steps_of(log, 0).back().pid, SIGTERM);
  ASSERT_TRUE(is_brought_back("pair", 2))
      << tern({"status", "pair"}).out << tern({"logs", "pair"}).out;
  const int64_t left_again = step_of_both(log);
  ASSERT_TRUE(wait_until([&] { return step_of_both(log) >= left_again + 12; }))
      << tern({"logs", "pair"}).out;
  const Finished stopped = tern({"stop", "pair"});
  EXPECT_EQ(stopped.exit_code, kExitDone) << stopped.err;
  EXPECT_EQ(stopped.out, "slurm-0: ended with 75\nslurm-1: ended with 75\n");
  // It saved each time that it left: no step was done twice. Rank 0 may have done some alone.
  int64_t last = 0;
  for (const ProgramStep& step : steps_of(log, 0)) {
    EXPECT_EQ(step.step, last + 1) << "process " << step.pid;
    last = step.step;
  }
  const std::vector<ProgramStep> others = steps_of(log, 1);
  EXPECT_TRUE(std::ranges::is_sorted(others, std::less_equal(), &ProgramStep::step));
  const nlohmann::json was = status("pair");
  EXPECT_EQ(tern({"down", "pair"}).exit_code, kExitDone);
  EXPECT_TRUE(leaves_nothing(was, 2));
}

TEST_F(LaunchesBySlurm, AMachineThatIsNotFitIsNamedAndTheOthersDoNotTrainWithoutIt) {
  write_text(place_ / "one.toml", read_text(place_ / "run.toml") +
                                      "\n[launch]\nsetup = ['test \"$TERN_MACHINE\" = 0']\n");
  const Finished unready = tern({"launch", "one.toml", "--name", "one", "--on", "slurm",
                                 "--machines", "2", "--run", "runs/one"});
  EXPECT_EQ(unready.exit_code, kExitPrecondition) << unready.out << unready.err;
  EXPECT_THAT(unready.out, AllOf(HasSubstr("machine 1 (n"), HasSubstr("setup command 1 (`test"),
                                 HasSubstr("not all machines are fit; nothing was started")));
  EXPECT_FALSE(fs::exists(place_ / "runs/one"));
  EXPECT_EQ(tern({"down", "one"}).exit_code, kExitDone);

  environment_["TERN_LIBTORCH"] = (place_ / "nothing").string();
  const Finished unfit = tern({"launch", "run.toml", "--name", "two", "--on", "slurm"});
  EXPECT_EQ(unfit.exit_code, kExitPrecondition) << unfit.out << unfit.err;
  EXPECT_THAT(unfit.out, AllOf(HasSubstr("machine 0 (n"), HasSubstr("it cannot train: ")));
  EXPECT_EQ(tern({"down", "two"}).exit_code, kExitDone);

  // What a program ends with ends the job; sbatch's options come by flag and by variable.
  environment_["SBATCH_TIMELIMIT"] = "7";
  const Finished failed = tern({"launch", "--name", "three", "--on", "slurm", "--slurm",
                                "comment=mine", "--", "sh", "-c", "echo tried; exit 98"});
  EXPECT_EQ(failed.exit_code, 98) << failed.out << failed.err;
  size_t tries = 0;
  for (size_t at = failed.out.find("tried\n"); at != std::string::npos;
       at = failed.out.find("tried\n", at + 1)) {
    ++tries;
  }
  EXPECT_EQ(tries, 4U);
  EXPECT_THAT(cluster_.ask({"scontrol", "show", "job", "-o", number_of("three")}),
              AllOf(HasSubstr("Comment=mine"), HasSubstr("TimeLimit=00:07:00")));
  EXPECT_EQ(tern({"down", "three"}).exit_code, kExitDone);
}

TEST_F(LaunchesBySlurm, AnyProgramIsRequeuedByItsExitCodeAndTakenFromTheQueue) {
  // It leaves with 75 once, and is done when it comes again.
  const Finished launched =
      tern({"launch", "--name", "short", "--on", "slurm", "--detach", "--", "sh", "-c",
            "echo machine $TERN_MACHINE of $TERN_MACHINES; test -n "
            "\"$SLURM_RESTART_COUNT\" || exit 75"});
  ASSERT_EQ(launched.exit_code, kExitDone) << launched.err;
  const std::string number = number_of("short");
  ASSERT_TRUE(wait_until([&] {
    cluster_.start_now(number);
    return cluster_.state_of(number) == "COMPLETED";
  })) << tern({"status", "short"}).out;
  const nlohmann::json done = status("short");
  EXPECT_EQ(done["machines"][0]["state"], "ended");
  EXPECT_EQ(done["machines"][0]["exit_code"], 0);
  EXPECT_THAT(tern({"logs", "short"}).out, HasSubstr("machine 0 of 1\n"));
  EXPECT_EQ(tern({"down", "short"}).exit_code, kExitDone);

  // Nothing of a job that Slurm refuses is left.
  const Finished refused = tern(
      {"launch", "--name", "large", "--on", "slurm", "--machines", "9", "--detach", "--", "true"});
  EXPECT_EQ(refused.exit_code, kExitUnavailable);
  EXPECT_THAT(refused.err, HasSubstr("sbatch: "));
  EXPECT_EQ(tern({"status", "large"}).exit_code, kExitNotFound);

  // One that waits.
  cluster_.ask({"scontrol", "update", "NodeName=n[1-3]", "State=DRAIN", "Reason=later"});
  ASSERT_EQ(
      tern({"launch", "--name", "later", "--on", "slurm", "--detach", "--", "true"}).exit_code,
      kExitDone);
  const nlohmann::json waits = status("later");
  EXPECT_EQ(waits["machines"][0]["state"], "pending");
  EXPECT_EQ(tern({"preempt", "later"}).exit_code, kExitPrecondition);
  EXPECT_EQ(tern({"connect", "later"}).exit_code, kExitPrecondition);
  EXPECT_EQ(tern({"stop", "later"}).exit_code, kExitDone);
  EXPECT_EQ(cluster_.state_of(number_of("later")), "CANCELLED");
  EXPECT_EQ(tern({"down", "later"}).exit_code, kExitDone);
  EXPECT_TRUE(leaves_nothing(waits, 1));
}

}  // namespace
}  // namespace tern
