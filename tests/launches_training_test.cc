// A launched training on this machine: started, drilled, gone on with, by commands that know only
// its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    start.environment = {{"XDG_STATE_HOME", (place_ / "state").string()}};
    return run_to_end(start);
  }

  WorkFolder place_;
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

TEST_F(LaunchesTraining, MistakesAreToldBeforeAnythingStarts) {
  const Finished wrong =
      tern({"launch", "run.toml", "--name", "x", "--set", "train.epohcs=3", "--detach"});
  EXPECT_EQ(wrong.exit_code, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean"));
  EXPECT_EQ(tern({"launch", "run.toml"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"launch", "--name", "x"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"launch", "--name", "../x", "--", "true"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"launch", "run.toml", "--name", "x", "--on", "ssh"}).exit_code, kExitUsage);
  EXPECT_EQ(tern({"status", "x"}).exit_code, kExitNotFound);
}

}  // namespace
}  // namespace tern
