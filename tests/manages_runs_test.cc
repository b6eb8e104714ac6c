// Looking after runs: listing, removing, looking at what they saved, and completing their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ManagesRuns : public testing::Test {
 protected:
  void train(const std::string& name, const std::string& steps) {
    const Finished finished = place_.tern(WorkFolder::train(name, {"--steps", steps}));
    ASSERT_EQ(finished.exit_code, 0) << finished.err;
  }
  nlohmann::json json_of(const std::vector<std::string>& words) {
    const Finished finished = place_.tern(words);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, false);
  }

  WorkFolder place_;
};

TEST_F(ManagesRuns, BeforeTheFirstRunThereIsNothingToListAndNoFolderIsMade) {
  EXPECT_THAT(place_.tern({"ls"}).out, HasSubstr("There are no runs"));
  EXPECT_EQ(json_of({"ls", "--json"}), nlohmann::json::array());
  EXPECT_FALSE(fs::exists(place_ / "runs"));
}

TEST_F(ManagesRuns, RunsAreListedAndOneIsRemoved) {
  train("first", "12");
  train("second", "6");
  fs::create_directories(place_ / "runs/notes");
  const auto list = json_of({"ls", "--json"});
  ASSERT_EQ(list.size(), 2u) << list;
  EXPECT_EQ(list[0]["run"], "first");
  EXPECT_EQ(list[0]["status"], "done");
  EXPECT_EQ(list[0]["step"], 12);
  EXPECT_EQ(list[0]["total_steps"], 12);
  EXPECT_EQ(list[0]["top1"], place_.report("first")["top1"]);
  EXPECT_GT(list[0]["last_ms"], 1'600'000'000'000);
  EXPECT_GT(list[0]["bytes"], fs::file_size(place_.run("first") / "model.safetensors"));
  EXPECT_THAT(place_.tern({"ls"}).out, HasSubstr("\nsecond  done"));

  EXPECT_EQ(place_.tern({"rm", "first"}).exit_code, kExitUsage) << "nobody was asked";
  EXPECT_TRUE(fs::exists(place_.run("first")));
  EXPECT_EQ(place_.tern({"rm", "first", "--yes"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(place_.run("first")));
  EXPECT_EQ(json_of({"ls", "--json"}).size(), 1u);
  EXPECT_TRUE(fs::exists(place_ / "runs/notes"));
}

TEST_F(ManagesRuns, ARunUnderWayIsListedAndNotRemoved) {
  Process training(place_.start(WorkFolder::train("busy")));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("busy") > 3; }));
  const auto list = json_of({"ls", "--json"});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["status"], "running");
  const Finished refused = place_.tern({"rm", "busy", "--yes"});
  EXPECT_EQ(refused.exit_code, kExitPrecondition) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("pid " + std::to_string(training.pid())));
  training.signal(SIGTERM);
  EXPECT_EQ(training.wait().exit_code, kExitPreempted);
  EXPECT_EQ(place_.tern({"rm", "busy", "--yes"}).exit_code, 0);
  EXPECT_TRUE(fs::is_empty(place_ / "runs"));
}

// Wherever the kill strikes, what is left is the whole run, or a folder with a name that says it.
TEST_F(ManagesRuns, AKilledRemovalCanBeFinished) {
  train("big", "3");
  const fs::path many = place_.run("big") / "checkpoints/many";
  fs::create_directories(many);
  for (int i = 0; i < 20'000; ++i) std::ofstream(many / std::to_string(i));

  Process removing(place_.start({"rm", "big", "--yes"}));
  ASSERT_TRUE(wait_until([&] { return !fs::exists(place_.run("big")); }));
  removing.signal(SIGKILL);
  removing.wait();
  for (const auto& left : json_of({"ls", "--json"})) {
    EXPECT_EQ(left["run"], "big.removed.1");
    EXPECT_EQ(left["status"], "half removed");
    EXPECT_EQ(place_.tern({"rm", "big.removed.1", "--yes"}).exit_code, 0);
  }
  EXPECT_TRUE(fs::is_empty(place_ / "runs"));
}

TEST_F(ManagesRuns, WhatIsNotTernsIsNotRemovedWithARun) {
  train("mine", "1");
  std::ofstream(place_.run("mine") / "thesis.tex") << "x";
  const Finished refused = place_.tern({"rm", "mine", "--yes"});
  EXPECT_EQ(refused.exit_code, kExitPrecondition);
  EXPECT_THAT(refused.err, HasSubstr("thesis.tex"));
  fs::remove(place_.run("mine") / "thesis.tex");
  EXPECT_EQ(place_.tern({"rm", "mine", "--yes"}).exit_code, 0) << "all else is tern's";
}

TEST_F(ManagesRuns, CheckpointsAreListedAndDamageIsFound) {
  train("run", "24");
  const auto list = json_of({"checkpoints", "run", "--json"});
  ASSERT_GE(list.size(), 1u);
  EXPECT_EQ(list.back()["step"], 24);
  EXPECT_THAT(place_.tern({"checkpoints", "run"}).out,
              HasSubstr("tern train FILE --from run@24 --run NEW\n"));
  EXPECT_EQ(place_.tern({"checkpoints", "run", "--verify"}).exit_code, 0);

  for (const auto& entry :
       fs::recursive_directory_iterator(place_.run("run") / "checkpoints/blobs")) {
    if (!entry.is_regular_file()) continue;
    std::fstream blob(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    blob.seekp(-1, std::ios::end);
    blob.put('\x55');
  }
  EXPECT_EQ(place_.tern({"checkpoints", "run"}).exit_code, 0) << "it does not read the blobs";
  const Finished damaged = place_.tern({"checkpoints", "run", "--verify"});
  EXPECT_EQ(damaged.exit_code, kExitCorrupt);
  EXPECT_THAT(damaged.out, HasSubstr("damaged: "));
  EXPECT_THAT(damaged.out, Not(HasSubstr("--from")));
}

TEST_F(ManagesRuns, BashCompletesRecipesAndRuns) {
  train("demo", "1");
  const std::string script = R"(
source <("$0" completion bash)
press_tab() { COMP_WORDS=("$0" "$@"); COMP_CWORD=$#; _tern; echo "${COMPREPLY[*]}"; }
press_tab tr
press_tab train fash
press_tab report ""
press_tab train --st
)";
  Process::Start start = place_.start({});
  start.command = {"bash", "--norc", "-c", script, TERN_PROGRAM};
  const Finished finished = run_to_end(start);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.out, "train\nfashion-mnist\ndemo\n--steps\n");
  EXPECT_EQ(finished.err, "");
}

}  // namespace
}  // namespace tern
