// What a run will do is told before it does it, and holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

// A resnet on the tiny data, in three phases.
constexpr char kPhases[] = R"(
recipe = "phases"
[data]
path = "data"
classes = 4
[model]
name = "resnet18"
stem = "small"
[optimizer]
learning_rate = 0.1
[schedule]
shape = "pieces"
reference_batch = 16
[train]
epochs = 6
threads = 1
evaluate_batch = 20
[[data_phase]]
epochs = [0, 3]
image_size = 8
batch = 32
[[data_phase]]
epochs = [3, 5]
image_size = 16
batch = 16
[[data_phase]]
epochs = [5, 6]
image_size = 24
batch = 8
[[lr_phase]]
epochs = [0, 3]
rate = [0.5, 1.0]
[[lr_phase]]
epochs = [3, 6]
rate = [1.0, 0.0]
)";

class Plans : public testing::Test {
 protected:
  nlohmann::json plan(std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    words.push_back("--json");
    const Finished finished = place_.tern(words);
    EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
    auto json = nlohmann::json::parse(finished.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << finished.out;
    return json.is_object() ? json : nlohmann::json::object();
  }

  WorkFolder place_;
};

TEST_F(Plans, TheStepsAndParametersAreThoseThatTheRunThenHas) {
  const auto json = plan({"run.toml", "--set", "train.epochs=2"});
  EXPECT_EQ(json["steps"], 12) << "90 samples, batches of 16";
  EXPECT_EQ(json["samples"], 180);
  EXPECT_EQ(json["data"]["train_samples"], 90);
  EXPECT_EQ(json["data"]["classes"], 4);
  EXPECT_FALSE(std::filesystem::exists(place_ / "runs")) << "a plan writes nothing";
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--set", "train.epochs=2"})).exit_code, 0);
  EXPECT_EQ(place_.report("run")["step"], json["steps"]);
  EXPECT_EQ(place_.ledger("run", "start").at(0)["parameters"], json["parameters"]);
  EXPECT_EQ(std::filesystem::file_size(place_.run("run") / "model.safetensors"),
            json["weights_bytes"].get<uintmax_t>());
}

TEST_F(Plans, StepsThatAreLimitedAreCountedAsTheyWillBeDone) {
  const auto json = plan({"run.toml", "--set", "train.steps=8"});
  EXPECT_EQ(json["steps"], 8);
  EXPECT_EQ(json["samples"], 90 + 2 * 16) << "an epoch's last batch is smaller";
  const auto short_epochs =
      plan({"run.toml", "--set", "train.epoch_steps=2", "--set", "train.epochs=3"});
  EXPECT_EQ(short_epochs["steps"], 6);
  EXPECT_EQ(short_epochs["samples"], 6 * 16);
}

TEST_F(Plans, PhasesAreShownWithTheirStepsAndRates) {
  write_text(place_ / "phases.toml", kPhases);
  const auto json = plan({"phases.toml"});
  ASSERT_EQ(json["phases"].size(), 3U);
  EXPECT_EQ(json["steps"], 3 * 3 + 2 * 6 + 1 * 12);
  EXPECT_EQ(json["phases"][0]["image_size"], 8);
  EXPECT_EQ(json["phases"][1]["batch"], 16);
  EXPECT_EQ(json["phases"][2]["steps"], 12);
  EXPECT_DOUBLE_EQ(json["phases"][0]["learning_rate_begin"], 0.1 * 0.5 * 2)
      << "twice the reference batch";
  EXPECT_DOUBLE_EQ(json["phases"][1]["learning_rate_begin"], 0.1);
  EXPECT_LT(json["phases"][2]["learning_rate_end"], 0.01);
  EXPECT_LE(json["learning_rate"]["curve"].size(), 60U);
  EXPECT_GT(json["phases"][2]["memory_bytes"].get<int64_t>(), 3 * 4 * 11'000'000LL);

  const Finished text = place_.tern({"plan", "phases.toml"});
  ASSERT_EQ(text.exit_code, kExitDone) << text.err;
  EXPECT_THAT(text.out, HasSubstr("3 to 5  16 "));
  EXPECT_THAT(text.out, HasSubstr("estimate,"));
  EXPECT_THAT(text.out, Not(HasSubstr("█"))) << "no terminal";
}

TEST_F(Plans, WhatTrainRefusesIsRefusedWithTheSameWords) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--set", "train.bach=3"},
                                             {"--set", "train.batch=0"},
                                             {"--set", "schedule.shape=step"},
                                             {"--set", "model.name=resnet19"}}) {
    std::vector<std::string> words = {"plan", "run.toml"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    const Finished planned = place_.tern(words);
    const Finished trained = place_.tern(WorkFolder::train("run", wrong));
    EXPECT_EQ(planned.exit_code, kExitUsage) << planned.err;
    EXPECT_EQ(planned.err, trained.err);
    EXPECT_TRUE(planned.out.empty()) << planned.out;
  }
  EXPECT_EQ(place_.tern({"plan"}).exit_code, kExitUsage);
  EXPECT_EQ(place_.tern({"plan", "run.toml", "--price", "cheap"}).exit_code, kExitUsage);
}

TEST_F(Plans, DamagedDataIsRefusedAndMissingDataIsAWarningWithTheRest) {
  write_text(place_ / "phases.toml", kPhases);
  const auto json = plan({"phases.toml", "--set", "data_phase.1.path=elsewhere"});
  ASSERT_EQ(json["warnings"].size(), 1U);
  EXPECT_THAT(json["warnings"][0].get<std::string>(),
              HasSubstr("tern data import SRC elsewhere --pack short:20:q90"));
  EXPECT_EQ(json["steps"], 33) << "counted as in the other phases";
  EXPECT_EQ(json["phases"][1]["data_is_here"], false);
  EXPECT_EQ(plan({"phases.toml", "--set", "data_phase.2.path=elsewhere"})["parameters"],
            plan({"phases.toml"})["parameters"])
      << "colour is taken from the phases that are here";

  const auto none = plan({"phases.toml", "--set", "data.path=nowhere"});
  EXPECT_TRUE(none["steps"].is_null());
  EXPECT_EQ(none["phases"].size(), 3U);
  EXPECT_GT(none["parameters"], 0);
  const auto told = plan({"phases.toml", "--set", "data.path=nowhere", "--set", "data.samples=90"});
  EXPECT_EQ(told["steps"], 33);

  const auto labels = place_ / "data" / "train-labels-idx1-ubyte";
  write_text(labels, read_text(labels).substr(0, 20));
  EXPECT_EQ(place_.tern({"plan", "run.toml"}).exit_code, kExitCorrupt);
}

TEST_F(Plans, ABatchLargerThanTheDataSetAndOneSidedClassesAreWarnings) {
  const auto large = plan({"run.toml", "--set", "train.batch=91"});
  ASSERT_EQ(large["warnings"].size(), 1U);
  EXPECT_THAT(large["warnings"][0].get<std::string>(), HasSubstr("larger than the data set"));
  write_tiny_data(place_ / "data", {.test_samples = 3});
  const auto uneven = plan({"run.toml"});
  ASSERT_EQ(uneven["warnings"].size(), 1U);
  EXPECT_THAT(uneven["warnings"][0].get<std::string>(), HasSubstr("no sample in the test data: 3"));
}

TEST_F(Plans, AProbePredictsTimeAndCostAboutAsTheyThenAre) {
  const std::vector<std::string> more = {"--set", "train.epochs=40", "--set", "train.device=cpu"};
  std::vector<std::string> words = {"run.toml", "--probe", "--price", "3600/h"};
  words.insert(words.end(), more.begin(), more.end());
  const auto json = plan(words);
  const auto& predicted = json["predicted"];
  ASSERT_TRUE(predicted.is_object()) << json.dump(2);
  EXPECT_GT(predicted["seconds"], 0);
  EXPECT_DOUBLE_EQ(predicted["cost_usd"].get<double>(),
                   std::round(predicted["seconds"].get<double>() * 1e6) / 1e6);
  EXPECT_GT(json["phases"][0]["compute_samples_per_second"], 0);
  EXPECT_GT(json["phases"][0]["data_samples_per_second"], 0);
  EXPECT_EQ(predicted["evaluations"], 2);
}

TEST_F(Plans, ABatchThatDoesNotFitIsNamedWithTheLargestThatDoes) {
  write_text(place_ / "phases.toml", kPhases);
  // Terabytes of activations, on any machine that runs this test.
  const auto json = plan({"phases.toml", "--probe", "--set", "train.device=cpu", "--set",
                          "data_phase.0.image_size=32", "--set", "data_phase.0.batch=1048576",
                          "--set", "train.evaluate_every=0", "--set", "train.steps=1"});
  EXPECT_EQ(json["phases"][0]["fits"], false);
  EXPECT_GT(json["phases"][0]["largest_batch"], 0);
  EXPECT_LT(json["phases"][0]["largest_batch"], 1'048'576);
  EXPECT_TRUE(json["predicted"].is_null());
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("data_phase.0.batch="));
}

TEST_F(Plans, CtrlCStopsAProbeAtOnce) {
  write_text(place_ / "phases.toml", kPhases);
  Process process(place_.start({"plan", "phases.toml", "--probe", "--set", "train.device=cpu",
                                "--set", "data_phase.2.image_size=512"}));
  process.signal(SIGINT);
  const Finished finished = process.wait();
  // Before it became tern-train the signal kills; afterwards it is obeyed.
  EXPECT_TRUE(finished.exit_code == kExitStopped || finished.exit_code == -SIGINT)
      << finished.exit_code << finished.err;
  EXPECT_TRUE(finished.out.empty());
}

}  // namespace
}  // namespace tern
