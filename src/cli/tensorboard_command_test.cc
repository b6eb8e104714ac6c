#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/command.h"
#include "cli/test_run.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TensorBoardCommand : public testing::Test {
 protected:
  std::string run(const std::string& name) {
    runs_.write(name, "tensorboard/events.out.tfevents.0000000001.000", "");
    return (runs_ / name).string();
  }
  static std::string printed(Arguments arguments) {
    arguments.push_back("--print");
    return output_of([&] { return tensorboard_command({}, arguments); });
  }

  // What a process that finds programs only in `path` says: the fake writes its arguments, and tern
  // its error, to the file `said`.
  std::string said_with(const std::string& path, const Arguments& arguments) {
    const fs::path said = runs_ / "said";
    const pid_t child = fork();
    if (child == 0) {
      setenv("PATH", path.c_str(), 1);
      setenv("SAID", said.c_str(), 1);
      const Result<int> result = tensorboard_command({}, arguments);
      std::ofstream(said) << (result.has_value() ? "returned" : result.error().to_string());
      _exit(3);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream stream(said);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // A program on a path of its own.
  std::string fake(const std::string& name, const std::string& script) {
    runs_.write("bin-" + name, name, "#!/bin/sh\n" + script);
    fs::permissions(runs_ / ("bin-" + name) / name, fs::perms::owner_all);
    return (runs_ / ("bin-" + name)).string();
  }

  TestRuns runs_;
  int exit_code_ = 0;
};

TEST_F(TensorBoardCommand, ShowsRunsByTheirNamesOnLoopback) {
  const std::string a = run("a");
  const std::string b = run("b");
  EXPECT_EQ(printed({a}),
            "tensorboard --logdir_spec=a:" + a + "/tensorboard --host=127.0.0.1 --port=6006\n");
  EXPECT_EQ(printed({a + "/", b, "--port", "7"}), "tensorboard --logdir_spec=a:" + a +
                                                      "/tensorboard,b:" + b +
                                                      "/tensorboard --host=127.0.0.1 --port=7\n");
}

TEST_F(TensorBoardCommand, TwoRunsOfOneNameStayApart) {
  const std::string a = run("x/a");
  const std::string b = run("y/a");
  EXPECT_THAT(printed({a, b}),
              HasSubstr("=a:" + a + "/tensorboard," + b + ":" + b + "/tensorboard "));
}

TEST_F(TensorBoardCommand, AFolderThatItsOptionCannotWriteIsShownAlone) {
  const std::string odd = run("1:2,3");
  EXPECT_THAT(printed({odd}), HasSubstr("--logdir=" + odd + "/tensorboard "));
  const auto both = tensorboard_command({}, {odd, run("a")});
  ASSERT_FALSE(both.has_value());
  EXPECT_EQ(both.error().code, Code::invalid);
}

TEST_F(TensorBoardCommand, ARunWithoutCurvesOrNoRunAtAllIsNotFound) {
  runs_.write("old", "ledger.jsonl", "");
  for (const std::string& name : {(runs_ / "old").string(), (runs_ / "none").string()}) {
    const auto result = tensorboard_command({}, {name, "--print"});
    ASSERT_FALSE(result.has_value()) << name;
    EXPECT_EQ(result.error().code, Code::not_found) << name;
  }
  EXPECT_FALSE(tensorboard_command({}, {"--port", "0"}).has_value());
  EXPECT_FALSE(tensorboard_command({}, {"--port", "x"}).has_value());
}

TEST_F(TensorBoardCommand, BecomesTheInstalledProgram) {
  const std::string path = fake("tensorboard", "printf '%s|' \"$@\" > \"$SAID\"\nexit 42\n");
  const std::string a = run("a");
  EXPECT_EQ(said_with(path, {a}),
            "--logdir_spec=a:" + a + "/tensorboard|--host=127.0.0.1|--port=6006|");
  EXPECT_EQ(exit_code_, 42);
}

TEST_F(TensorBoardCommand, BecomesPythonsModuleWhereThereIsNoProgram) {
  const std::string path =
      fake("python3", "[ \"$1\" = -c ] && exit 0\nprintf '%s|' \"$1\" \"$2\" > \"$SAID\"\n");
  EXPECT_EQ(said_with(path, {run("a")}), "-m|tensorboard.main|");
  EXPECT_EQ(exit_code_, 0);
}

TEST_F(TensorBoardCommand, SaysHowToInstallWhatIsNotThere) {
  const std::string without_module = fake("python3", "exit 1\n");
  for (const std::string& path : {without_module, (runs_ / "nothing").string()}) {
    const std::string said = said_with(path, {run("a")});
    EXPECT_THAT(said, HasSubstr("not_found")) << path;
    EXPECT_THAT(said, HasSubstr("pip install tensorboard")) << path;
  }
}

}  // namespace
}  // namespace tern
