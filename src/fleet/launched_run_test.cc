#include "fleet/launched_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fleet/test_folder.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaunchedRun a_run(const std::string& name) {
  return {.name = name,
          .id = "0123456789abcdef0123456789abcdef",
          .created_unix_ms = 7,
          .run = "s3://b/r",
          .command = {"python3", "train.py"},
          .setup = {"mount /data"},
          .machines = {{.machine = {.name = "a",
                                    .address = "10.0.0.1",
                                    .user = "u",
                                    .port = 22,
                                    .ssh_options = {"A=b"},
                                    .ranks = 2,
                                    .spare = true,
                                    .interface = "10.1.0.1"},
                        .tern = "/t",
                        .agent = {{1, 2, "boot"}, {3, 4, "boot"}, 5}},
                       {.machine = {.name = "b", .address = "10.0.0.2"}}},
          .slurm_job = 12};
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat found{};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 0777;
}

class LaunchedRunsTest : public testing::Test {
 protected:
  TestFolder folder_;
  LaunchedRuns runs_{folder_.path()};
};

TEST_F(LaunchedRunsTest, AreFoundAgainWithAllThatIsKnownOfThem) {
  ASSERT_TRUE(runs_.create(a_run("x"), "the secret"));
  const auto found = runs_.open("x");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(format_launched_run(*found), format_launched_run(a_run("x")));
  EXPECT_EQ(found->machines[0].machine, a_run("x").machines[0].machine);
  EXPECT_EQ(found->machines[0].agent.command.start, 4);
  EXPECT_EQ(found->slurm_job, 12);
  EXPECT_THAT(found->setup, ElementsAre("mount /data"));
  EXPECT_EQ(*runs_.secret("x"), "the secret");
  EXPECT_THAT(runs_.names(), ElementsAre("x"));
  LaunchedRun changed = a_run("x");
  changed.machines.pop_back();
  ASSERT_TRUE(runs_.update(changed));
  EXPECT_EQ(runs_.open("x")->machines.size(), 1U);
  ASSERT_TRUE(runs_.remove("x"));
  EXPECT_THAT(runs_.names(), ElementsAre());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs/x.secret"));
}

TEST_F(LaunchedRunsTest, KeepSecretsFromOthersAndOutOfTheRecord) {
  ASSERT_TRUE(runs_.create(a_run("x"), "the secret"));
  EXPECT_EQ(mode_of(folder_ / "runs"), 0700U);
  EXPECT_EQ(mode_of(folder_ / "runs/x.json"), 0600U);
  EXPECT_EQ(mode_of(folder_ / "runs/x.secret"), 0600U);
  EXPECT_THAT(folder_.read("runs/x.json"), testing::Not(HasSubstr("secret")));
}

TEST_F(LaunchedRunsTest, HaveOneRunForAName) {
  ASSERT_TRUE(runs_.create(a_run("x"), "first"));
  const Status again = runs_.create(a_run("x"), "second");
  EXPECT_EQ(again.error().code, Code::already_exists);
  EXPECT_THAT(again.error().message, HasSubstr("`tern down x` ends it"));
  EXPECT_EQ(*runs_.secret("x"), "first");
}

TEST_F(LaunchedRunsTest, NameTheNearestAndRefuseOddNames) {
  ASSERT_TRUE(runs_.create(a_run("night"), ""));
  EXPECT_EQ(runs_.open("nihgt").error().code, Code::not_found);
  EXPECT_THAT(runs_.open("nihgt").error().message, HasSubstr("did you mean night?"));
  for (const char* name : {"", "../x", ".x", "-x", "a b", "a/b"}) {
    EXPECT_EQ(runs_.open(name).error().code, Code::invalid) << name;
  }
}

TEST_F(LaunchedRunsTest, SayWhenARecordIsDamaged) {
  for (const char* text : {"", "{}", "[1]", R"({"version": 1, "name": 7})"}) {
    folder_.write("runs/x.json", text);
    EXPECT_EQ(runs_.open("x").error().code, Code::corrupt) << text;
    EXPECT_THAT(runs_.open("x").error().message, HasSubstr("runs/x.json: it is damaged"));
  }
  folder_.write("runs/x.json", R"({"version": 2})");
  EXPECT_EQ(runs_.open("x").error().code, Code::failed_precondition);
  // Words for a command line that no hosts file could have held.
  LaunchedRun bad = a_run("x");
  bad.machines[0].machine.address = "-oProxyCommand=sh";
  EXPECT_EQ(parse_launched_run(format_launched_run(bad)).error().code, Code::corrupt);
}

TEST(LaunchedRun, FindsAMachineByNumberOrName) {
  const LaunchedRun run = a_run("x");
  EXPECT_EQ(*run.find_machine("1"), 1U);
  EXPECT_EQ(*run.find_machine("b"), 1U);
  EXPECT_THAT(run.find_machine("2").error().message, HasSubstr("its machines are 0 to 1"));
  EXPECT_FALSE(run.find_machine("-1"));
}

}  // namespace
}  // namespace tern
