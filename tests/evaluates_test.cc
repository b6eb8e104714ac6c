// Accuracy of what was trained, and what it sees in pictures, with the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "photos.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

nlohmann::json json_of(const Finished& finished) {
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  auto json = nlohmann::json::parse(finished.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << finished.out;
  return json;
}

// Every file below a folder, with its size and the time that it was last written.
std::set<std::string> trace_of(const fs::path& folder) {
  std::set<std::string> trace;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string line = entry.path().string();
    line += " " + std::to_string(entry.last_write_time().time_since_epoch().count());
    if (entry.is_regular_file()) line += " " + std::to_string(entry.file_size());
    trace.insert(std::move(line));
  }
  return trace;
}

class Evaluates : public testing::Test {
 protected:
  // 60 steps, ten epochs, evaluated at the end of the last.
  void train() {
    const Finished trained = place_.tern(
        WorkFolder::train("run", {"--set", "train.epochs=10", "--set", "train.evaluate_every=5"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  Finished eval(std::vector<std::string> words) {
    words.insert(words.begin(), "eval");
    return place_.tern(words);
  }

  WorkFolder place_;
};

TEST_F(Evaluates, TheLastCheckpointGivesTheNumbersOfTheRunsOwnEvaluation) {
  train();
  const auto before = trace_of(place_.run("run"));
  const nlohmann::json json = json_of(eval({"run", "--json"}));
  const nlohmann::json report = place_.report("run");
  EXPECT_EQ(json["top1"], report["top1"]);
  EXPECT_EQ(json["samples"], 20);
  EXPECT_EQ(json["step"], 60);
  EXPECT_GT(json["loss"], 0);
  EXPECT_EQ(json["top5"], 1);  // of four classes
  EXPECT_EQ(json["data_id"].get<std::string>().size(), 64u);
  ASSERT_EQ(json["classes"].size(), 4u);
  int64_t samples = 0;
  double right = 0;
  for (const auto& row : json["classes"]) {
    samples += row["samples"].get<int64_t>();
    if (row["samples"] > 0) right += row["top1"].get<double>() * row["samples"].get<double>();
  }
  EXPECT_EQ(samples, 20);
  EXPECT_NEAR(right / 20, json["top1"].get<double>(), 1e-9);
  // Other batches are other sums, but the same predictions.
  EXPECT_EQ(json_of(eval({"run", "--json", "--batch", "7"}))["top1"], json["top1"]);
  EXPECT_EQ(json_of(eval({"run", "--json", "--split", "train"}))["samples"], 90);
  EXPECT_EQ(trace_of(place_.run("run")), before) << "it wrote into the run";
}

TEST_F(Evaluates, ForPeopleItSaysWhatWasMeasuredOnWhat) {
  train();
  const Finished finished = eval({"run", "--per-class"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("runs/run at step 60 on "));
  EXPECT_THAT(finished.out, HasSubstr("top-1    "));
  EXPECT_THAT(finished.out, HasSubstr("class 3"));
}

TEST_F(Evaluates, ARunThatIsTrainingCanBeEvaluatedWithoutDisturbingIt) {
  const auto start = place_.start(WorkFolder::train("run"));
  Process training(start);
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("run") > 200; }));
  // It saves every 100 ms, and drops what it has saved before.
  const nlohmann::json json = json_of(eval({"run", "--json"}));
  EXPECT_GT(json["step"], 0);
  training.signal(SIGINT);
  EXPECT_EQ(training.wait().exit_code, kExitStopped);
}

TEST_F(Evaluates, OtherDataOfTheSameClassesAndCheckpointsByName) {
  train();
  write_tiny_data(place_ / "other", {.test_samples = 33, .seed = 7});
  EXPECT_EQ(json_of(eval({"run", "--json", "--data", "other"}))["samples"], 33);
  const nlohmann::json best = json_of(eval({"run", "--json", "--checkpoint", "best"}));
  EXPECT_GE(best["top1"], place_.report("run")["top1"]);
  EXPECT_EQ(json_of(eval({"run", "--json", "--checkpoint", "60"}))["step"], 60);
  const Finished missing = eval({"run", "--checkpoint", "61"});
  EXPECT_EQ(missing.exit_code, kExitNotFound);
  EXPECT_THAT(missing.err, HasSubstr("60"));
}

TEST_F(Evaluates, MistakesSayWhatToTryNext) {
  const Finished nobody = eval({"nothing"});
  EXPECT_EQ(nobody.exit_code, kExitNotFound);
  EXPECT_THAT(nobody.err, HasSubstr("tern ls"));
  EXPECT_EQ(eval({}).exit_code, kExitUsage);
  EXPECT_THAT(eval({"run", "--split", "validation"}).err, HasSubstr("test or train"));
  EXPECT_THAT(eval({"run", "--checkpoint", "newest"}).err, HasSubstr("best, last or a step"));

  train();
  const Finished gone = eval({"run", "--data", "nowhere"});
  EXPECT_EQ(gone.exit_code, kExitNotFound);
  EXPECT_THAT(gone.err, HasSubstr("nowhere"));
  const Finished other = eval({"run", "--set", "model.width=8"});
  EXPECT_EQ(other.exit_code, kExitPrecondition);
  EXPECT_THAT(other.err, HasSubstr("conv1.weight"));
  EXPECT_THAT(other.err, HasSubstr("conv2.weight"));
  fs::remove_all(place_.run("run") / "checkpoints");
  const Finished empty = eval({"run"});
  EXPECT_EQ(empty.exit_code, kExitNotFound);
  EXPECT_THAT(empty.err, HasSubstr("no checkpoint"));
}

TEST_F(Evaluates, AFileOfWeightsInTheModelOfARunFile) {
  train();
  fs::copy_file(place_.run("run") / "model.safetensors", place_ / "weights.safetensors");
  const nlohmann::json of_run = json_of(eval({"run", "--json"}));
  const nlohmann::json of_file =
      json_of(eval({"run.toml", "--init", "weights.safetensors", "--json"}));
  EXPECT_EQ(of_file["top1"], of_run["top1"]);
  EXPECT_EQ(of_file["loss"], of_run["loss"]);
  EXPECT_EQ(of_file["sha256"].get<std::string>().size(), 64u);
  const Finished narrow =
      eval({"run.toml", "--init", "weights.safetensors", "--set", "model.width=8"});
  EXPECT_EQ(narrow.exit_code, kExitPrecondition);
  EXPECT_THAT(narrow.err, HasSubstr("conv1.weight"));
  write_text(place_ / "page.html", "<html>404</html>");
  const Finished garbage = eval({"run.toml", "--init", "page.html"});
  EXPECT_EQ(garbage.exit_code, kExitCorrupt);
  EXPECT_THAT(garbage.err, HasSubstr("neither a safetensors file nor"));
}

// Photos of ants and bees, at 32 px.
class Predicts : public testing::Test {
 protected:
  void train() {
    write_photos(place_ / "photos");
    ASSERT_EQ(place_.tern({"data", "import", "photos", "insects"}).exit_code, 0);
    const Finished trained = place_.tern(WorkFolder::train(
        "run", {"--set", "data.path=insects", "--set", "data.classes=2", "--set", "image.size=32",
                "--set", "augment.pad_crop=0", "--set", "train.epochs=20"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }

  WorkFolder place_;
};

TEST_F(Predicts, NamesTheClassesOfFilesAndFolders) {
  train();
  const Finished finished = place_.tern({"predict", "run", "photos/val", "--top", "1"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  int right = 0;
  int lines = 0;
  std::istringstream answers(finished.out);
  for (std::string line; std::getline(answers, line); ++lines) {
    const std::string folder = line.substr(std::string("photos/val/").size(), 4);
    right += line.find(": " + folder + " ") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(lines, 16);
  EXPECT_GT(right, 8) << "no better than chance: are the names in the right order?";
  // The same view as evaluation's: exactly as many are right.
  const nlohmann::json json = json_of(place_.tern({"eval", "run", "--json"}));
  EXPECT_DOUBLE_EQ(json["top1"].get<double>(), right / 16.0);
  EXPECT_EQ(json["classes"][0]["name"], "ants");
}

TEST_F(Predicts, AFileThatCannotBeReadIsNamedAndTheOthersArePredicted) {
  train();
  std::string photo = (place_ / "photos/val/ants").string();
  photo = fs::directory_iterator(photo)->path().string();
  write_text(place_ / "garbage.jpg", "this is no picture");
  const Finished finished =
      place_.tern({"predict", "run", "garbage.jpg", photo, "gone.png", "--json"});
  EXPECT_EQ(finished.exit_code, kExitCorrupt);
  EXPECT_THAT(finished.err, HasSubstr("garbage.jpg"));
  EXPECT_THAT(finished.err, HasSubstr("gone.png"));
  const auto json = nlohmann::json::parse(finished.out, nullptr, false);
  ASSERT_EQ(json.size(), 3u) << finished.out;
  EXPECT_TRUE(json[0].contains("error"));
  ASSERT_EQ(json[1]["predictions"].size(), 2u);
  EXPECT_EQ(json[1]["predictions"][0]["class"], "ants");
  const double sum = json[1]["predictions"][0]["probability"].get<double>() +
                     json[1]["predictions"][1]["probability"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-4);
}

TEST_F(Predicts, DataOfOtherClassesIsRefusedByName) {
  train();
  for (const char* half : {"train", "val"}) {
    fs::create_directories(place_ / (std::string("others/") + half));
    fs::rename(place_ / "photos" / half / "ants",
               place_ / (std::string("others/") + half) / "moths");
    fs::rename(place_ / "photos" / half / "bees",
               place_ / (std::string("others/") + half) / "wasps");
  }
  ASSERT_EQ(place_.tern({"data", "import", "others", "moths"}).exit_code, 0);
  const Finished finished = place_.tern({"eval", "run", "--data", "moths"});
  EXPECT_EQ(finished.exit_code, kExitPrecondition);
  EXPECT_THAT(finished.err, HasSubstr("class 0 is moths and was ants"));
}

TEST_F(Predicts, OfNothingItSaysWhatIsMissing) {
  EXPECT_EQ(place_.tern({"predict"}).exit_code, kExitUsage);
  EXPECT_THAT(place_.tern({"predict", "run"}).err, HasSubstr("which images?"));
  EXPECT_EQ(place_.tern({"predict", "nobody", "a.jpg"}).exit_code, kExitNotFound);
}

}  // namespace
}  // namespace tern
