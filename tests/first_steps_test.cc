// What a newcomer types and reads, with the real program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

class FirstSteps : public testing::Test {
 protected:
  WorkFolder place_;
};

TEST_F(FirstSteps, HelpFitsAScreenAndTeaches) {
  const Finished help = place_.tern({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_LE(std::count(help.out.begin(), help.out.end(), '\n'), 24);
  EXPECT_THAT(help.out, HasSubstr("tern train fashion-mnist"));
  const Finished train = place_.tern({"train"});
  EXPECT_EQ(train.exit_code, kExitUsage);
  EXPECT_THAT(train.out + train.err, HasSubstr("tern train"));
  EXPECT_THAT(place_.tern({"train", "--options"}).out, HasSubstr("optimizer.learning_rate"));
}

TEST_F(FirstSteps, ARecipeCanBePrintedEditedAndTrained) {
  EXPECT_THAT(place_.tern({"recipes"}).out, HasSubstr("fashion-mnist"));
  const Finished init = place_.tern({"init", "fashion-mnist"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  write_text(place_ / "mine.toml", init.out);
  const Finished finished =
      place_.tern({"train", "mine.toml", "--run", "mine", "--steps", "3", "--set",
                   "data.path=\"data\"", "--set", "data.classes=4", "--set", "train.batch=8"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(place_.report("mine")["step"], 3);
}

TEST_F(FirstSteps, TheRunFolderHoldsWhatTheReadmeSays) {
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "12"})).exit_code, 0);
  for (const char* name : {"run.toml", "ledger.jsonl", "metrics.jsonl", "log.txt",
                           "model.safetensors", "report.json"}) {
    EXPECT_GT(std::filesystem::file_size(place_.run("run") / name), 0u) << name;
  }
  EXPECT_TRUE(std::filesystem::is_directory(place_.run("run") / "checkpoints"));
  const auto report = place_.report("run");
  for (const char* field : {"status", "step", "top1", "steps_lost", "interruptions", "wall_seconds",
                            "samples_per_second"}) {
    EXPECT_TRUE(report.contains(field)) << field;
  }
  EXPECT_GT(report["samples_per_second"], 0);
  const Finished text = place_.tern({"report", "runs/run"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, HasSubstr("done"));
}

TEST_F(FirstSteps, TheCommandThatAUserTypesLinksNoLibTorch) {
  const Finished linked = run_to_end({.command = {"ldd", TERN_PROGRAM}});
  ASSERT_EQ(linked.exit_code, 0) << linked.err;
  EXPECT_THAT(linked.out, HasSubstr("libc.so"));
  EXPECT_THAT(linked.out, Not(HasSubstr("torch")));
}

TEST_F(FirstSteps, ALibTorchThatIsNotWhereItIsSaidToBeSaysWhatToDo) {
  auto start = place_.start(WorkFolder::train("run"));
  start.environment = {{"TERN_LIBTORCH", "/nowhere"}};
  const Finished finished = run_to_end(start);
  EXPECT_EQ(finished.exit_code, kExitUsage) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("unset TERN_LIBTORCH"));
}

TEST_F(FirstSteps, TheExampleRunsAsItsReadmeSays) {
  const char* judges = std::getenv("TERN_TEST_PYTHONPATH");
  if (judges == nullptr || *judges == '\0')
    GTEST_SKIP() << "TERN_TEST_PYTHONPATH is not set: no Python safetensors";
  Process::Start start = place_.start({});
  start.command = {TERN_SOURCE_DIR "/examples/01-train-locally/run.sh"};
  for (const char* assignment : {"data.path=\"data\"", "data.classes=4", "train.batch=8",
                                 "train.epochs=50", "train.threads=1"}) {
    start.command.insert(start.command.end(), {"--set", assignment});
  }
  const std::string folder = std::filesystem::path(TERN_PROGRAM).parent_path();
  start.environment = {{"PYTHONPATH", judges}, {"PATH", folder + ":" + std::getenv("PATH")}};
  const Finished finished = run_to_end(start);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("done at step 100"));
  EXPECT_THAT(finished.out, HasSubstr("done at step 200"));
  EXPECT_THAT(finished.out, HasSubstr("fc2.weight"));
}

// Python's `safetensors` judges the files we write.
TEST_F(FirstSteps, PythonReadsTheWeightsAndTheCheckpoint) {
  const char* judges = std::getenv("TERN_TEST_PYTHONPATH");
  if (judges == nullptr || *judges == '\0')
    GTEST_SKIP() << "TERN_TEST_PYTHONPATH is not set: no Python safetensors";
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "3"})).exit_code, 0);
  std::string blob;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(place_.run("run") / "checkpoints" / "blobs")) {
    if (entry.is_regular_file()) blob = entry.path();
  }
  const std::string script = R"(
import sys
from safetensors.numpy import load_file
model = load_file(sys.argv[1])
state = load_file(sys.argv[2])
layers = ("conv1", "conv2", "fc1", "fc2")
assert set(model) == {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
assert model["conv1.weight"].shape == (4, 1, 3, 3) and model["fc2.weight"].shape == (4, 16)
for name, tensor in model.items():
    assert (state["model." + name] == tensor).all(), name
    assert state["momentum." + name].shape == tensor.shape, name
print("equal", len(state))
)";
  Process::Start start{.command = {"python3", "-c", script,
                                   (place_.run("run") / "model.safetensors").string(), blob}};
  start.environment = {{"PYTHONPATH", judges}};
  const Finished judged = run_to_end(start);
  EXPECT_EQ(judged.exit_code, 0) << judged.err;
  EXPECT_EQ(judged.out, "equal 16\n");
}

}  // namespace
}  // namespace tern
