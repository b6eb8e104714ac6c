// A launched training, on this machine and on one that is reached by ssh and has nothing: started,
// drilled, gone on with, by commands that know only its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ssh_host.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LaunchesTraining : public testing::Test {
 protected:
  Finished tern(const std::vector<std::string>& words) const {
    Process::Start start = place_.start(words);
    start.environment = environment_;
    return run_to_end(start);
  }

  WorkFolder place_;
  std::map<std::string, std::string> environment_ = {
      {"XDG_STATE_HOME", (place_ / "state").string()}};
};

TEST_F(LaunchesTraining, ItIsStoppedAndGoesOnWhereItWas) {
  const Finished launched =
      tern({"launch", "run.toml", "--name", "night", "--run", "runs/night", "--detach"});
  ASSERT_EQ(launched.exit_code, kExitDone) << launched.err;
  EXPECT_THAT(launched.out, HasSubstr("night runs on 1 machine;"));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("night") >= kWholeRunSteps / 10; }));
  EXPECT_THAT(tern({"status", "night"}).out, AllOf(HasSubstr("local-0"), HasSubstr("running")));
  const Finished stopped = tern({"stop", "night"});
  EXPECT_EQ(stopped.exit_code, kExitDone) << stopped.err;
  EXPECT_EQ(stopped.out, "local-0: ended with 10\n");
  EXPECT_EQ(place_.report("night")["status"], "stopped");
  EXPECT_EQ(tern({"down", "night"}).exit_code, kExitDone);

  // Again, drilled this time, and once more to its end.
  ASSERT_EQ(
      tern({"launch", "run.toml", "--name", "night", "--run", "runs/night", "--detach"}).exit_code,
      kExitDone);
  ASSERT_TRUE(wait_until(
      [&] { return tern({"logs", "night"}).out.find("resuming") != std::string::npos; }));
  EXPECT_EQ(tern({"preempt", "night"}).exit_code, kExitDone);
  EXPECT_THAT(tern({"logs", "night", "-f"}).out, HasSubstr("0 steps lost"));
  EXPECT_EQ(place_.report("night")["status"], "preempted");
  EXPECT_EQ(tern({"down", "night"}).exit_code, kExitDone);

  const Finished done = tern({"launch", "run.toml", "--name", "night", "--run", "runs/night"});
  EXPECT_EQ(done.exit_code, kExitDone) << done.err;
  EXPECT_THAT(done.err, HasSubstr("local-0: ended with 0"));
  EXPECT_EQ(place_.report("night")["steps_lost"], 0);
  EXPECT_EQ(tern({"down", "night"}).exit_code, kExitDone);
}

TEST_F(LaunchesTraining, SetupRunsBeforeARestartOnceTheMachineWasStartedAnew) {
  const Finished here = run_to_end({.command = {TERN_SOURCE_DIR "/scripts/find-libtorch"}});
  ASSERT_EQ(here.exit_code, 0) << here.err;
  environment_["TERN_LIBTORCH"] = here.out.substr(0, here.out.size() - 1);
  environment_["XDG_CACHE_HOME"] = (place_ / "cache").string();
  const std::filesystem::path said = place_ / "said";
  write_text(
      place_ / "mounts.toml",
      read_text(place_ / "run.toml") + "\n[launch]\nsetup = ['echo x >> " + said.string() + "']\n");
  const Finished launched = tern(
      {"launch", "mounts.toml", "--name", "night", "--set", "train.epochs=100000", "--detach"});
  ASSERT_EQ(launched.exit_code, kExitDone) << launched.err;
  EXPECT_THAT(launched.err, AllOf(HasSubstr("local-0: setup done"),
                                  HasSubstr("local-0: doctor finds nothing that stops it")));
  const auto restart = [&] {
    EXPECT_EQ(tern({"stop", "night"}).exit_code, kExitDone);
    const Finished again = tern({"restart", "night", "--machine", "0"});
    EXPECT_EQ(again.exit_code, kExitDone) << again.err;
  };
  restart();
  EXPECT_EQ(read_text(said), "x\n");
  for (const auto& file : std::filesystem::directory_iterator(place_ / "cache/tern/setup")) {
    if (file.path().extension() == ".done") write_text(file.path(), "another boot\n");
  }
  restart();
  EXPECT_EQ(read_text(said), "x\nx\n");
  EXPECT_EQ(tern({"down", "night"}).exit_code, kExitDone);
}

TEST_F(LaunchesTraining, AMachineThatCannotTrainIsNamedHereToo) {
  environment_["TERN_LIBTORCH"] = (place_ / "nothing").string();
  const Finished unfit = tern({"launch", "run.toml", "--name", "x", "--detach"});
  EXPECT_EQ(unfit.exit_code, kExitPrecondition);
  EXPECT_THAT(unfit.err, HasSubstr("machine local-0: it cannot train: "));
  EXPECT_EQ(tern({"status", "x"}).exit_code, kExitNotFound);
}

// Its Python has a pip that brings what this machine has, in place of half a gigabyte from the net.
TEST_F(LaunchesTraining, AMachineWithoutLibTorchFetchesItOnce) {
  const Finished here = run_to_end({.command = {TERN_SOURCE_DIR "/scripts/find-libtorch"}});
  ASSERT_EQ(here.exit_code, 0) << here.err;
  const std::filesystem::path python = place_ / "far/bin/python3";
  std::filesystem::create_directories(python.parent_path());
  write_text(python,
             "#!/bin/sh\n"
             "case \"$*\" in\n"
             "  '-m pip --version') ;;\n"
             "  '-m pip download'*)\n"
             "    while [ \"$1\" != -d ]; do shift; done; mkdir $2; touch $2/torch.whl ;;\n"
             "  '-m zipfile -e'*) mkdir -p $5 && ln -s " +
                 here.out.substr(0, here.out.size() - 1) +
                 " $5/torch ;;\n"
                 "  *) exit 1 ;;\n"
                 "esac\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  make_user_key(place_ / "keys");
  const SshHost far(place_ / "far", place_ / "keys",
                    "PATH=" + python.parent_path().string() + ":/usr/bin:/bin");
  write_text(place_ / "known", far.known_host());
  write_text(place_ / "config", "Host far\n  HostName 127.0.0.1\n  Port " +
                                    std::to_string(far.port()) + "\n  IdentityFile " +
                                    (place_ / "keys/id").string() + "\n  UserKnownHostsFile " +
                                    (place_ / "known").string() + "\n");
  std::filesystem::copy(place_ / "data", far.folder() / "data");
  const auto launch = [&] {
    Process::Start start = place_.start(
        {"launch", "run.toml", "--name", "far", "--hosts", "far", "--set", "train.epochs=2"});
    start.environment = {{"XDG_STATE_HOME", (place_ / "state").string()},
                         {"XDG_RUNTIME_DIR", (place_ / "far").string()},
                         {"TERN_SSH_CONFIG", (place_ / "config").string()}};
    Finished finished = run_to_end(start);
    start.command = place_.start({"down", "far"}).command;
    EXPECT_EQ(run_to_end(start).exit_code, kExitDone);
    return finished;
  };
  const Finished first = launch();
  EXPECT_EQ(first.exit_code, kExitDone) << first.err;
  EXPECT_THAT(first.err,
              AllOf(HasSubstr("far: LibTorch is not there and is fetched (545 MB"),
                    HasSubstr("far: LibTorch was fetched in "), HasSubstr("far: ended with 0")));
  EXPECT_TRUE(std::filesystem::exists(far.folder() / "runs/far/model.safetensors"));
  const Finished second = launch();
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  EXPECT_THAT(second.err, testing::Not(HasSubstr("LibTorch")));
}

TEST_F(LaunchesTraining, MistakesAreToldBeforeAnythingStarts) {
  const Finished wrong =
      tern({"launch", "run.toml", "--name", "x", "--set", "train.epohcs=3", "--detach"});
  EXPECT_EQ(wrong.exit_code, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean"));
  EXPECT_EQ(tern({"launch", "run.toml"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"launch", "--name", "x"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"launch", "--name", "../x", "--", "true"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"launch", "run.toml", "--name", "x", "--on", "ssh"}).exit_code, kExitUsage);
  const Finished set = tern({"launch", "--name", "x", "--set", "a=b", "--", "true"});
  EXPECT_EQ(set.exit_code, kExitUsage);
  EXPECT_THAT(set.err, HasSubstr("--set a=b is for a run file"));
  EXPECT_EQ(tern({"launch", "--name", "x", "--slurm", "gres=gpu:1", "--", "true"}).exit_code,
            kExitUsage);
  EXPECT_EQ(tern({"status", "x"}).exit_code, kExitNotFound);
}

}  // namespace
}  // namespace tern
