#include "fleet/slurm_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tern {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(SlurmText, SbatchIsToldAllThatARequeuedJobNeeds) {
  EXPECT_THAT(sbatch_command({.name = "night",
                              .machines = 3,
                              .script = "/s/job.sh",
                              .log = "/s/50%/log.txt",
                              .folder = "/srv/u",
                              .options = {"--partition=gpu", "--gres=gpu:1"}}),
              ElementsAre("sbatch", "--parsable", "--job-name=tern-night", "--nodes=3",
                          "--ntasks-per-node=1", "--requeue", "--open-mode=append",
                          "--signal=TERM@60", "--output=/s/50%%/log.txt", "--chdir=/srv/u",
                          "--partition=gpu", "--gres=gpu:1", "/s/job.sh"));
}

TEST(SlurmText, TheScriptBecomesTern) {
  EXPECT_EQ(slurm_script("/it's/tern", "/state/x"),
            "#!/bin/sh\nexec '/it'\\''s/tern' agent slurm-job '/state/x'\n");
}

TEST(SlurmText, AStepIsOneMachineOfTheJob) {
  EXPECT_THAT(srun_command({.machine = 2,
                            .environment = {{"TERN_MACHINE", "2"}, {"TERN_PEERS", "a:1 b:2"}},
                            .cpus = "8",
                            .command = {"tern", "agent"}}),
              ElementsAre("env", "TERN_MACHINE=2", "TERN_PEERS=a:1 b:2", "srun", "--nodes=1",
                          "--ntasks=1", "--relative=2", "--job-name=machine-2", "--input=none",
                          "--output=none", "--cpus-per-task=8", "tern", "agent"));
  EXPECT_THAT(srun_command({}), Not(Contains(HasSubstr("cpus-per-task"))));
  EXPECT_THAT(srun_command({.is_heard = true}), Not(Contains("--output=none")));
}

TEST(SlurmText, AKilledStepIsToldFromOneThatEndsWithTheSameCode) {
  EXPECT_EQ(parse_srun_end(0, ""), 0);
  EXPECT_EQ(parse_srun_end(98, "srun: error: n1: task 0: Exited with exit code 98\n"), 98);
  EXPECT_EQ(parse_srun_end(137, "srun: error: n1: task 0: Exited with exit code 137\n"), 137);
  EXPECT_EQ(parse_srun_end(137, "srun: error: n1: task 0: Killed\n"), -9);
  EXPECT_EQ(parse_srun_end(0, "srun: error: Node failure on n1\n"), -1);
}

TEST(SlurmText, AnSrunThatFailsIsToldFromItsCommand) {
  EXPECT_TRUE(has_srun_failed(1, "srun: error: Unable to create step: Invalid node name\n"));
  EXPECT_FALSE(has_srun_failed(1, "srun: error: n1: task 0: Exited with exit code 1\n"));
  EXPECT_FALSE(has_srun_failed(137, "srun: error: n1: task 0: Killed\n"));
  EXPECT_FALSE(has_srun_failed(0, ""));
}

TEST(SlurmText, OptionsThatAreNoneOrOursAreRefusedTogether) {
  EXPECT_TRUE(check_slurm_options({"--partition=gpu", "--exclusive", "--signal=TERM@300"}));
  const Status refused =
      check_slurm_options({"-p", "gpu", "--nodes=2", "--no-requeue", "--time=1\n#", "--x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid);
  for (const char* said : {"(launch.slurm, --slurm): '-p' is not of the form", "'gpu' is not",
                           "--nodes is tern's to say", "--no-requeue is tern's",
                           "'--time=1' is not", "'--x' is not"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(said));
  }
}

TEST(SlurmText, ReadsTheNumberOfTheJob) {
  EXPECT_EQ(*parse_sbatch("12\n"), 12);
  EXPECT_EQ(*parse_sbatch("12;cluster\n"), 12);
  for (const char* wrong : {"", "no", "-1", "0", "12 13"}) EXPECT_FALSE(parse_sbatch(wrong));
}

TEST(SlurmText, ReadsAJob) {
  const auto job = parse_scontrol_job(
      "JobId=2 JobName=tern-x UserId=root(0) JobState=PENDING Reason=BeginTime Requeue=1 "
      "Restarts=2 BatchFlag=1 ExitCode=75:0 StartTime=2026-11-16T21:37:44 ReqNodeList=n9 "
      "ExcNodeList=(null) NodeList=n[1-2] Command=/a JobState=FAILED\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->state, "PENDING");
  EXPECT_EQ(job->reason, "BeginTime");
  EXPECT_EQ(job->nodes, "n[1-2]");
  EXPECT_EQ(job->restarts, 2);
  EXPECT_EQ(job->exit_code, 75);
  EXPECT_TRUE(job->is_alive());
  EXPECT_TRUE(job->is_waiting());
  const auto ended = parse_scontrol_job("JobState=CANCELLED Reason=None ExitCode=0:15 NodeList=\n");
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->reason, "");
  EXPECT_EQ(ended->nodes, "");
  EXPECT_EQ(ended->exit_code, -15);
  EXPECT_FALSE(ended->is_alive());
  EXPECT_FALSE(parse_scontrol_job(""));
  EXPECT_FALSE(parse_scontrol_job("slurm_load_jobs error: Invalid job id specified"));
  EXPECT_EQ(parse_scontrol_job("JobState=X ExitCode=9999999999999999999999:x")->exit_code, 0);
}

TEST(SlurmText, ReadsWhatAccountingKept) {
  EXPECT_EQ(parse_sacct("COMPLETED|0:0\n")->state, "COMPLETED");
  const auto cancelled = parse_sacct("REQUEUED|0:0\nCANCELLED by 1000|0:15\n");
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->state, "CANCELLED");
  EXPECT_EQ(cancelled->exit_code, -15);
  for (const char* wrong : {"", "\n", "Slurm accounting storage is disabled\n"}) {
    EXPECT_FALSE(parse_sacct(wrong)) << wrong;
  }
}

TEST(SlurmText, ReadsStepsAndNodes) {
  EXPECT_THAT(parse_steps("1.0|machine-1\n1.1|machine-0\n1.batch|batch\nodd\n"),
              UnorderedElementsAre(Pair("machine-1", "1.0"), Pair("machine-0", "1.1"),
                                   Pair("batch", "1.batch")));
  EXPECT_THAT(parse_hostnames("n1\nn2\n"), ElementsAre("n1", "n2"));
  EXPECT_THAT(parse_node_addresses("NodeName=n1 Arch=x NodeAddr=10.0.0.1 NodeHostName=vm\n"
                                   "NodeName=n2 NodeAddr=n2.example.com X=1\nodd\n"),
              UnorderedElementsAre(Pair("n1", "10.0.0.1"), Pair("n2", "n2.example.com")));
  EXPECT_THAT(parse_steps(""), IsEmpty());
}

TEST(SlurmText, PortsAreInTheirRangeAndDifferFromMachineToMachine) {
  for (const int64_t job : {int64_t{1}, int64_t{4'000'000'000}}) {
    std::set<int> ports;
    for (size_t machine = 0; machine < 1000; ++machine) {
      const int port = slurm_port(job, 3, 1, machine);
      EXPECT_GE(port, 20'000);
      EXPECT_LT(port, 30'000);
      ports.insert(port);
    }
    EXPECT_EQ(ports.size(), 1000U);
  }
  EXPECT_NE(slurm_port(7, 0, 0, 0), slurm_port(7, 0, 1, 0));
  EXPECT_NE(slurm_port(7, 0, 0, 0), slurm_port(7, 1, 0, 0));
}

}  // namespace
}  // namespace tern
