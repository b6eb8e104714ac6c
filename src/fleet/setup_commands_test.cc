#include "fleet/setup_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/on_all.h"
#include "fleet/test_folder.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SetupCommands : public testing::Test {
 protected:
  Result<SetupResult> run(const std::vector<std::string>& commands) {
    return run_setup_commands(commands, folder_ / "cache", folder_.path(), machine_, clock_);
  }

  SetupMachine machine_ = this_setup_machine();

  TestFolder folder_;
  SystemClock clock_;
};

TEST_F(SetupCommands, RunOnceInOrderAndAreLogged) {
  const std::vector<std::string> commands = {"echo one >> said; echo hello",
                                             "echo \"two's\" >> said"};
  const auto first = run(commands);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->ran);
  EXPECT_FALSE(run(commands)->ran);
  EXPECT_EQ(folder_.read("said"), "one\ntwo's\n");
  std::ifstream log(first->log);
  const std::string text{std::istreambuf_iterator<char>(log), {}};
  EXPECT_THAT(text, AllOf(HasSubstr("+ echo one >> said; echo hello\nhello\n+ echo")));
  // Others are others, also if they are the same words in another order.
  EXPECT_TRUE(run({commands[1], commands[0]})->ran);
}

// What they mounted is gone.
TEST_F(SetupCommands, RunAgainAfterTheMachineWasStartedAnew) {
  EXPECT_FALSE(machine_.boot_id.empty());
  EXPECT_TRUE(run({"echo x >> said"})->ran);
  machine_.boot_id = "another";
  EXPECT_TRUE(run({"echo x >> said"})->ran);
  EXPECT_FALSE(run({"echo x >> said"})->ran);
  EXPECT_EQ(folder_.read("said"), "x\nx\n");
}

TEST_F(SetupCommands, RunOnEachOfTheMachinesThatShareAHome) {
  EXPECT_TRUE(run({"echo x >> said"})->ran);
  const SetupMachine first = machine_;
  machine_ = {.name = "other", .boot_id = "another"};
  EXPECT_TRUE(run({"echo x >> said"})->ran);
  machine_ = first;
  EXPECT_FALSE(run({"echo x >> said"})->ran);
  EXPECT_EQ(folder_.read("said"), "x\nx\n");
}

TEST_F(SetupCommands, ThatFailAreNamedAndRunAgain) {
  const std::vector<std::string> commands = {"echo begun >> said",
                                             "echo bad luck >&2; test -e mended"};
  const auto failed = run(commands);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::failed_precondition);
  EXPECT_THAT(failed.error().message,
              AllOf(HasSubstr("setup command 2 (`echo bad luck"),
                    HasSubstr("ended with 1: bad luck"), HasSubstr(".log")));
  folder_.write("mended", "");
  EXPECT_TRUE(run(commands)->ran);
  EXPECT_EQ(folder_.read("said"), "begun\nbegun\n");
}

TEST_F(SetupCommands, OfTwoLaunchesAtOnceRunOnce) {
  const auto results = on_all(3, [this](size_t) { return run({"echo once >> said"}); });
  EXPECT_TRUE(all_good(results));
  EXPECT_EQ(folder_.read("said"), "once\n");
}

}  // namespace
}  // namespace tern
