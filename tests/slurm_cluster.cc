#include "slurm_cluster.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <csignal>
#include <ranges>

#include "core/token.h"
#include "ssh_host.h"
#include "tiny_data.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kRefusedFor{2};

std::string host_name() {
  char name[256] = {};
  EXPECT_EQ(gethostname(name, sizeof name - 1), 0);
  return name;
}

std::string configuration(const fs::path& folder) {
  const std::string place = folder.string();
  const passwd* user = getpwuid(geteuid());
  const std::string me = user == nullptr ? "root" : user->pw_name;
  std::string text = "ClusterName=tern\nSlurmctldHost=" + host_name() +
                     "(127.0.0.1)\nSlurmUser=" + me + "\nSlurmdUser=" + me +
                     "\nSlurmctldPort=" + std::to_string(unused_port()) +
                     "\nAuthInfo=socket=" + place + "/munge.sock\n";
  for (const char* file :
       {"SlurmctldPidFile=@/ctld.pid", "SlurmctldLogFile=@/ctld.log", "SlurmdPidFile=@/%n.pid",
        "SlurmdLogFile=@/%n.log", "SlurmdSpoolDir=@/spool.%n", "StateSaveLocation=@/state"}) {
    std::string line = file;
    text += line.replace(line.find('@'), 1, place) + "\n";
  }
  text +=
      "AuthType=auth/munge\nCredType=cred/munge\nProctrackType=proctrack/linuxproc\n"
      "TaskPlugin=task/none\nMpiDefault=none\nSelectType=select/cons_tres\n"
      "SelectTypeParameters=CR_Core\nAccountingStorageType=accounting_storage/none\n"
      "SlurmdParameters=config_overrides\nJobRequeue=1\nReturnToService=2\nKillWait=30\n"
      "SlurmdTimeout=60\nEnforcePartLimits=ALL\nTCPTimeout=10\nMessageTimeout=30\n"
      "SchedulerParameters=sched_interval=1,bf_interval=1\n";
  for (const char* node : {"n1", "n2", "n3"}) {
    text += std::string("NodeName=") + node + " NodeHostname=" + host_name() +
            " NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 Port=" + std::to_string(unused_port()) +
            "\n";
  }
  return text + "PartitionName=main Nodes=ALL Default=YES State=UP\n";
}

}  // namespace

SlurmCluster::SlurmCluster(fs::path folder) : folder_(std::move(folder)) {
  const auto key = random_bytes(128);
  EXPECT_TRUE(key);
  for (const char* name : {"state", "spool.n1", "spool.n2", "spool.n3"}) {
    fs::create_directories(folder_ / name);
  }
  // --force: nobody else is to reach the socket, and munge would insist that they can.
  write_text(folder_ / "munge.key", *key);
  fs::permissions(folder_ / "munge.key", fs::perms(0400));
  write_text(folder_ / "slurm.conf", configuration(folder_));
  write_text(folder_ / "cgroup.conf", "CgroupPlugin=cgroup/v1\n");
  const std::string place = folder_.string();
  start({"munged", "--foreground", "--force", "--key-file=" + place + "/munge.key",
         "--socket=" + place + "/munge.sock", "--pid-file=" + place + "/munge.pid",
         "--log-file=" + place + "/munge.log", "--seed-file=" + place + "/munge.seed"});
  EXPECT_TRUE(wait_until([&] { return fs::exists(folder_ / "munge.sock"); }))
      << daemons_.back()->err_so_far() << "install the package munge";
  start({"slurmctld", "-D", "-f", place + "/slurm.conf"});
  for (const char* node : {"n1", "n2", "n3"}) {
    start({"slurmd", "-D", "-f", place + "/slurm.conf", "-N", node});
  }
  EXPECT_TRUE(wait_until([&] {
    const Finished said = run_to_end(
        {.command = {"sinfo", "-h", "-t", "idle", "-o", "%D"}, .environment = environment()});
    return said.out == "3\n";
  })) << daemons_.back()->err_so_far()
      << "install the package slurm-wlm";
}

SlurmCluster::~SlurmCluster() {
  // A test that failed may have left jobs, which would outlive their Slurm.
  run_to_end(
      {.command = {"scancel", "--signal=KILL", "--partition=main"}, .environment = environment()});
  wait_until([&] {
    run_to_end({.command = {"scancel", "--partition=main"}, .environment = environment()});
    return run_to_end({.command = {"squeue", "-h"}, .environment = environment()}).out.empty();
  });
  // In the reverse order, and gently: each writes its state down.
  for (const auto& daemon : std::views::reverse(daemons_)) {
    daemon->signal(SIGTERM);
    daemon->wait();
  }
}

void SlurmCluster::start(const std::vector<std::string>& command) {
  Process::Start start{.command = command};
  // Where a user's path has no daemons.
  const char* path = getenv("PATH");
  start.environment = {{"PATH", std::string(path == nullptr ? "/bin" : path) + ":/usr/sbin"}};
  daemons_.push_back(std::make_unique<Process>(start));
}

std::map<std::string, std::string> SlurmCluster::environment() const {
  return {{"SLURM_CONF", (folder_ / "slurm.conf").string()}};
}

std::string SlurmCluster::ask(const std::vector<std::string>& command) const {
  Finished said = run_to_end({.command = command, .environment = environment()});
  EXPECT_EQ(said.exit_code, 0) << command.front() << ": " << said.err;
  if (said.out.ends_with('\n')) said.out.pop_back();
  return said.out;
}

std::string SlurmCluster::state_of(const std::string& job) const {
  return ask({"squeue", "-h", "--jobs=" + job, "--states=all", "-o", "%T"});
}

void SlurmCluster::start_now(const std::string& job) {
  if (ask({"squeue", "-h", "--jobs=" + job, "--states=all", "-o", "%T %r"}) !=
      "PENDING BeginTime") {
    waiting_since_.erase(job);
    return;
  }
  const Nanoseconds since = waiting_since_.try_emplace(job, clock_.now()).first->second;
  if (clock_.now() - since < kRefusedFor) return;
  // It may have begun in between.
  run_to_end({.command = {"scontrol", "update", "jobid=" + job, "StartTime=now"},
              .environment = environment()});
}

void SlurmCluster::resume(const std::string& node) const {
  run_to_end({.command = {"scontrol", "update", "NodeName=" + node, "State=RESUME"},
              .environment = environment()});
}

}  // namespace tern
