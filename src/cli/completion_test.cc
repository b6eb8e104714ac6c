// The scripts are loaded into real shells, with a `tern` that knows two recipes and some runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/command_table.h"
#include "cli/completion_script.h"
#include "cli/test_run.h"
#include "train/eval_flags.h"
#include "train/train_flags.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The long flags that a command's source tells CLI11 of.
std::set<std::string> parsed_flags(const Command& command, const std::string& group = "") {
  std::set<std::string> flags;
  if (command.name == "train") {
    CLI::App app;
    app.set_help_flag();
    TrainRequest request;
    add_train_flags(app, request);
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) flags.insert("--" + name);
    }
  }
  const fs::path sources = fs::path(TERN_SOURCE_DIR) / "src";
  std::string source = read(sources / "cli" / (group + std::string(command.name) + "_command.cc"));
  EXPECT_FALSE(source.empty()) << command.name;
  // Flags that tern-train parses again are defined once for both.
  if (command.name == "plan") source += read(sources / "train/plan_flags.cc");
  if (command.name == "eval" || command.name == "predict") {
    CLI::App app;
    app.set_help_flag();
    EvalRequest eval;
    PredictRequest predict;
    if (command.name == "eval") add_eval_flags(app, eval);
    if (command.name == "predict") add_predict_flags(app, predict);
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) flags.insert("--" + name);
    }
  }
  // These take --help for the command.
  for (const std::string_view call : {"parse_or_help(", "parse_uri(", "weights_command("}) {
    if (source.find(call) != source.npos) flags.insert("--help");
  }
  for (const std::string_view call : {"add_flag(", "add_option("}) {
    for (size_t at = source.find(call); at != source.npos; at = source.find(call, at + 1)) {
      // The names are the first argument: "-h,--help".
      const size_t open = source.find('"', at);
      const size_t close = source.find('"', open + 1);
      std::istringstream names(source.substr(open + 1, close - open - 1));
      for (std::string name; std::getline(names, name, ',');) {
        if (name.starts_with("--")) flags.insert(name);
      }
    }
  }
  return flags;
}

TEST(CommandTable, HasTheFlagsThatTheCommandsParse) {
  for (const Command& command : command_table()) {
    if (command.hidden || !command.subcommands.empty()) continue;
    std::set<std::string> listed = {"--help"};
    for (const Flag& flag : command.flags) listed.emplace(flag.name);
    EXPECT_EQ(listed, parsed_flags(command)) << "tern " << command.name;
  }
  const auto expect_flags_of = [](std::span<const Command> commands, const std::string& group) {
    for (const Command& command : commands) {
      std::set<std::string> listed = {"--help"};
      for (const Flag& flag : command.flags) listed.emplace(flag.name);
      EXPECT_EQ(listed, parsed_flags(command, group + "_")) << group << " " << command.name;
    }
  };
  expect_flags_of(data_command_table(), "data");
  expect_flags_of(store_command_table(), "store");
  expect_flags_of(run_command_table(), "run");
}

TEST(CommandTable, IsWhatTheHelpListsInItsOrder) {
  size_t position = 0;
  for (const Command& command : command_table()) {
    if (command.hidden) continue;
    // On a line of its own, or after others of its kind.
    const std::string help = kTernHelp;
    size_t found = std::string::npos;
    for (const std::string before : {"\n  ", ", "}) {
      for (const std::string after : {" ", ","}) {
        found = std::min(found, help.find(before + std::string(command.name) + after, position));
      }
    }
    ASSERT_NE(found, std::string::npos) << command.name;
    position = found;
  }
}

class BashCompletion : public testing::Test {
 protected:
  BashCompletion() {
    std::ofstream(place_ / "completion.bash") << bash_completion();
    std::ofstream(place_ / "tern") << R"(#!/bin/sh
case "$*" in
  "recipes --names") printf 'cifar10\nfashion-mnist\n' ;;
  "status --names") printf 'night\n' ;;
  "ls --names") printf 'demo\ndemo 2\n$(touch pwned)\n`touch pwned`\n' ;;
esac
)";
    fs::permissions(place_ / "tern", fs::perms::owner_all);
    std::ofstream(place_ / "fashion.toml") << "";
    std::ofstream(place_ / "fashion.txt") << "";
  }

  // What is offered when Tab is pressed at the end of the words.
  std::vector<std::string> complete(const std::vector<std::string>& words) {
    std::ofstream script(place_ / "drive.bash");
    script << "cd '" << place_.path().string() << "'\nsource ./completion.bash\nCOMP_WORDS=(./tern";
    for (const std::string& word : words) script << " '" << word << "'";
    script << ")\nCOMP_CWORD=" << words.size() << "\n_tern\n"
           << "(( ${#COMPREPLY[@]} == 0 )) || printf '%s\\n' \"${COMPREPLY[@]}\" > offered\n";
    script.close();
    fs::remove(place_ / "offered");
    const std::string command = "bash --norc -u '" + (place_ / "drive.bash").string() + "' 2>'" +
                                (place_ / "complaints").string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << read(place_ / "complaints");
    EXPECT_EQ(read(place_ / "complaints"), "");
    std::vector<std::string> offered;
    std::ifstream file(place_ / "offered");
    for (std::string line; std::getline(file, line);) offered.push_back(line);
    return offered;
  }

  TestRuns place_;
};

TEST_F(BashCompletion, CompletesCommands) {
  EXPECT_THAT(complete({"tr"}), ElementsAre("train"));
  EXPECT_THAT(complete({"re"}), UnorderedElementsAre("report", "recipes", "restart"));
  EXPECT_THAT(complete({""}), Contains("--version"));
  EXPECT_THAT(complete({""}), Not(Contains("docs"))) << "hidden";
  EXPECT_THAT(complete({"help", "ch"}), ElementsAre("checkpoints"));
}

TEST_F(BashCompletion, CompletesFlags) {
  EXPECT_THAT(complete({"train", "--st"}), ElementsAre("--steps"));
  EXPECT_THAT(complete({"train", "fashion-mnist", "--fr"}),
              UnorderedElementsAre("--from", "--fresh"));
  EXPECT_THAT(complete({"report", "demo", "--j"}), ElementsAre("--json"));
  EXPECT_THAT(complete({"ls", "--n"}), IsEmpty()) << "hidden";
  EXPECT_THAT(complete({"init", "-"}), ElementsAre("--help"));
}

TEST_F(BashCompletion, CompletesRecipesAndRunFiles) {
  EXPECT_THAT(complete({"train", "fash"}), UnorderedElementsAre("fashion-mnist", "fashion.toml"));
  EXPECT_THAT(complete({"init", "fash"}), ElementsAre("fashion-mnist"));
}

TEST_F(BashCompletion, CompletesRunsAndExecutesNoName) {
  const std::vector<std::string> runs = complete({"report", ""});
  EXPECT_THAT(runs,
              ElementsAre("demo", "demo\\ 2", "\\$\\(touch\\ pwned\\)", "\\`touch\\ pwned\\`"));
  EXPECT_THAT(complete({"train", "x", "--run", "de"}), Contains("demo"));
  EXPECT_THAT(complete({"rm", "demo", "d"}), Contains("demo"));
  EXPECT_FALSE(fs::exists(place_ / "pwned"));
}

TEST_F(BashCompletion, CompletesLaunchedRuns) {
  for (const char* command : {"status", "logs", "connect", "restart", "stop", "preempt", "down"}) {
    EXPECT_THAT(complete({command, "n"}), ElementsAre("night")) << command;
  }
}

TEST_F(BashCompletion, CompletesFoldersOfRunsByPath) {
  fs::create_directories(place_ / "runs/deep");
  EXPECT_THAT(complete({"report", "runs/de"}), ElementsAre("runs/deep"));
  EXPECT_THAT(complete({"ls", "ru"}), ElementsAre("runs"));
}

TEST_F(BashCompletion, CompletesOptionsAfterSet) {
  EXPECT_THAT(complete({"train", "x", "--set", "train.see"}), ElementsAre("train.seed="));
  EXPECT_THAT(complete({"train", "x", "--steps", ""}), IsEmpty()) << "a number";
}

TEST_F(BashCompletion, CompletesTheCommandsOfDataAndTheirFlags) {
  fs::create_directories(place_ / "pictures");
  EXPECT_THAT(complete({"data", "ve"}), ElementsAre("verify"));
  EXPECT_THAT(complete({"data", "import", "--p"}), ElementsAre("--pack"));
  EXPECT_THAT(complete({"data", "ls", "pic"}), ElementsAre("pictures"));
  EXPECT_THAT(complete({"data", "bench", "x", "--set", "image.siz"}), ElementsAre("image.size="));
  EXPECT_THAT(complete({"data", "nothing", ""}), IsEmpty());
}

// zsh is checked where there is one; what the script must hold is looked at everywhere.
TEST(ZshCompletion, KnowsCommandsFlagsAndNames) {
  const std::string script = zsh_completion();
  EXPECT_TRUE(script.starts_with("#compdef tern\n"));
  for (const Command& command : command_table()) {
    if (command.hidden) continue;
    EXPECT_THAT(script, HasSubstr("    '" + std::string(command.name) + ":"));
    for (const Flag& flag : command.flags) {
      if (flag.hidden) continue;
      EXPECT_THAT(script, HasSubstr("'" + std::string(flag.name) + "["));
    }
  }
  EXPECT_THAT(script, Not(HasSubstr("docs")));
  EXPECT_THAT(script, HasSubstr("train.epochs= "));
  EXPECT_THAT(script, HasSubstr("'--run[the run'\\''s folder or address, or its name in runs/]:"));

  if (std::system("command -v zsh > /dev/null") != 0) return;
  TestRuns place;
  std::ofstream(place / "_tern") << script;
  EXPECT_EQ(std::system(("zsh -n '" + (place / "_tern").string() + "'").c_str()), 0);
}

}  // namespace
}  // namespace tern
