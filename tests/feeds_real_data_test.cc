// From a user's pictures to a run on them, with the real program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "photos.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FeedsRealData : public testing::Test {
 protected:
  FeedsRealData() { write_photos(place_ / "photos"); }

  nlohmann::json ls(const std::string& name) {
    const Finished finished = place_.tern({"data", "ls", name, "--json"});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }

  // The words of a short run on a data set of the photos.
  static std::vector<std::string> train(const std::string& data, const std::string& run,
                                        std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"train", "run.toml",          "--run", run,
                                      "--set", "data.path=" + data, "--set", "data.classes=2",
                                      "--set", "image.size=24",     "--set", "augment.flip=true",
                                      "--set", "train.epochs=12",   "--set", "train.batch=8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Cuts the picture short, behind its header.
  void damage(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }

  std::string weights(const std::string& run) {
    return read_text(place_.run(run) / "model.safetensors");
  }

  WorkFolder place_;
};

TEST_F(FeedsRealData, AFolderOfPhotosIsImportedLookedAtVerifiedAndLearned) {
  const Finished imported = place_.tern({"data", "import", "photos", "set", "--pack", "orig"});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("data.path=set"));
  const nlohmann::json about = ls("set");
  EXPECT_EQ(about["samples"]["train"], 48);
  EXPECT_EQ(about["samples"]["test"], 16);
  EXPECT_EQ(about["classes"], 2);
  EXPECT_EQ(about["bad"], 0);
  EXPECT_EQ(about["class_counts"][1]["name"], "bees");
  EXPECT_THAT(place_.tern({"data", "ls", "set"}).out, HasSubstr("ants: 24 train, 8 test"));

  const Finished verified = place_.tern({"data", "verify", "set", "--decode"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("64 samples"));
  const Finished shown = place_.tern({"data", "show", "set", "30"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("sample-30.png"), HasSubstr("bees")));
  EXPECT_TRUE(read_text(place_ / "sample-30.png").starts_with("\x89PNG"));
  EXPECT_EQ(place_.tern({"data", "show", "set", "--grid", "4x2", "--out", "g.png"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(place_ / "g.png"));
  const Finished bench =
      place_.tern({"data", "bench", "set", "--samples", "64", "--passes", "1", "--json"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_GT(nlohmann::json::parse(bench.out)["samples_per_s"], 0);

  const Finished trained = place_.tern(train("set", "run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("shuffle full: quality"));
  EXPECT_GE(place_.report("run")["top1"], 0.9);
}

TEST_F(FeedsRealData, PackedAndInPlaceAreTheSameDataAndGiveTheSameBits) {
  ASSERT_EQ(place_.tern({"data", "import", "photos", "packed", "--pack", "orig"}).exit_code, 0);
  const Finished in_place = place_.tern({"data", "import", "photos", "in_place"});
  ASSERT_EQ(in_place.exit_code, 0) << in_place.err;
  EXPECT_EQ(ls("packed")["id"], ls("in_place")["id"]);
  EXPECT_FALSE(fs::exists(place_ / "in_place/shards")) << "nothing is copied";
  EXPECT_EQ(place_.tern({"data", "verify", "in_place"}).exit_code, 0);

  ASSERT_EQ(place_.tern(train("packed", "a", {"--steps", "20"})).exit_code, 0);
  ASSERT_EQ(place_.tern(train("in_place", "b", {"--steps", "9"})).exit_code, 0);
  // The other half of the second run reads the other copy, behind a staged one, with more threads.
  const Finished rest = place_.tern(train(
      "packed", "b", {"--steps", "20", "--set", "data.stage=staged", "--set", "loader.threads=3"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_EQ(place_.losses("a"), place_.losses("b"));
}

TEST_F(FeedsRealData, ABadSampleIsNamedAndTheRunDoesWhatItsPolicySays) {
  ASSERT_EQ(place_.tern({"data", "import", "photos", "set"}).exit_code, 0);
  damage(place_ / "photos/train/bees/007.jpg");
  const Finished verified = place_.tern({"data", "verify", "set"});
  EXPECT_EQ(verified.exit_code, kExitCorrupt);
  EXPECT_THAT(verified.out, HasSubstr("bees/007.jpg"));

  const Finished stopped = place_.tern(train("set", "stop"));
  EXPECT_EQ(stopped.exit_code, kExitCorrupt) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("bees/007.jpg"));
  EXPECT_EQ(place_.report("stop")["status"], "failed");
  for (const std::string policy : {"skip", "replace"}) {
    const std::vector<std::string> more = {"--set", "data.on_bad_sample=" + policy};
    const Finished finished = place_.tern(train("set", policy, more));
    EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
    const nlohmann::json bad = place_.report(policy)["bad_samples"];
    ASSERT_EQ(bad.size(), 1U) << "named once, though 12 epochs met it";
    EXPECT_THAT(bad[0]["sample"].get<std::string>(), HasSubstr("bees/007.jpg"));
    EXPECT_EQ(bad[0]["done"], policy == "skip" ? "skipped" : "replaced");
    ASSERT_EQ(place_.tern(train("set", policy + "2", more)).exit_code, kExitDone);
    EXPECT_EQ(weights(policy), weights(policy + "2")) << "the same every time";
  }
  EXPECT_EQ(place_.report("skip")["samples"], 12 * 47);
  EXPECT_EQ(place_.report("replace")["samples"], 12 * 48);
}

// The leader alone writes records, and hears of what the others could not read.
TEST_F(FeedsRealData, BadSamplesOfEveryRankAreInTheRecords) {
  ASSERT_EQ(place_.tern({"data", "import", "photos", "set"}).exit_code, 0);
  constexpr int kDamaged = 10;
  for (int i = 0; i < kDamaged; ++i) damage(place_ / fmt::format("photos/train/bees/{:03}.jpg", i));
  const Finished finished =
      place_.tern(train("set", "run",
                        {"--set", "data.on_bad_sample=skip", "--ranks", "2", "--set",
                         "train.epochs=1", "--set", "model.dropout=0"}));
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  const nlohmann::json report = place_.report("run");
  EXPECT_EQ(report["bad_samples"].size(), static_cast<size_t>(kDamaged));
  EXPECT_EQ(report["samples"], 48 - kDamaged);
  EXPECT_THAT(finished.err, HasSubstr("[rank 1]")) << "else this test shows nothing";
  EXPECT_THAT(report["bad_samples"].dump(), HasSubstr("rank 1 (pid "));
}

TEST_F(FeedsRealData, AFlippedBitInAShardNamesTheRecord) {
  ASSERT_EQ(place_.tern({"data", "import", "photos", "set", "--pack", "orig"}).exit_code, 0);
  const fs::path shard = place_ / "set/shards/00000.shard";
  std::string bytes = read_text(shard);
  const size_t at = bytes.find("ants/003.jpg");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 300] = static_cast<char>(bytes[at + 300] ^ 4);
  fs::permissions(shard, fs::perms::owner_all);
  write_text(shard, bytes);
  const Finished verified = place_.tern({"data", "verify", "set"});
  EXPECT_EQ(verified.exit_code, kExitCorrupt);
  EXPECT_THAT(verified.out, AllOf(HasSubstr("ants/003.jpg"), HasSubstr("shards/00000.shard at ")));
  const Finished trained = place_.tern(train("set", "run"));
  EXPECT_EQ(trained.exit_code, kExitCorrupt);
  EXPECT_THAT(trained.err, AllOf(HasSubstr("ants/003.jpg"), HasSubstr("tern data verify")));
}

TEST_F(FeedsRealData, MistakesAreToldBeforeAnythingBegins) {
  write_text(place_ / "photos/train/ants/zz.jpg", "no picture at all");
  const Finished imported =
      place_.tern({"data", "import", "photos", "set", "--pack", "short:32:q80"});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_EQ(ls("set")["bad"], 1);
  EXPECT_THAT(ls("set")["bad_samples"][0]["name"].get<std::string>(), HasSubstr("ants/zz.jpg"));

  const Finished again = place_.tern({"data", "import", "photos", "set", "--pack", "orig"});
  EXPECT_EQ(again.exit_code, kExitPrecondition) << "a data set never changes under a name";
  const Finished no_size = place_.tern(train("set", "a", {"--set", "image.size=0"}));
  EXPECT_EQ(no_size.exit_code, kExitUsage);
  EXPECT_THAT(no_size.err, HasSubstr("set image.size"));
  const Finished classes = place_.tern(train("set", "b", {"--set", "data.classes=3"}));
  EXPECT_EQ(classes.exit_code, kExitUsage);
  EXPECT_THAT(classes.err, HasSubstr("data.classes=2"));
  EXPECT_THAT(place_.tern({"data", "ls", "photos"}).err, HasSubstr("tern data import"));
  EXPECT_THAT(place_.tern({"data", "import", "photos", "x", "--pack", "tiny"}).err,
              HasSubstr("short:"));
  EXPECT_THAT(place_.tern({"data", "imprt"}).err, HasSubstr("did you mean `tern data import`"));
  EXPECT_FALSE(fs::exists(place_.run("a")));
}

TEST_F(FeedsRealData, TheExampleRunsAsItsReadmeSays) {
  Process::Start start = place_.start({});
  start.command = {TERN_SOURCE_DIR "/examples/02-pack-a-dataset/run.sh", "--set",
                   "train.threads=1"};
  const std::string folder = fs::path(TERN_PROGRAM).parent_path();
  start.environment = {{"PATH", folder + ":" + std::getenv("PATH")}};
  const Finished finished = run_to_end(start);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("disc/broken.png"), HasSubstr("180 train, 60 test")));
  EXPECT_TRUE(fs::exists(place_ / "grid.png"));
  EXPECT_GE(place_.report("flags")["top1"], 0.85);
}

TEST_F(FeedsRealData, WindowedShufflesSayThatTheyAreNoFullOnes) {
  ASSERT_EQ(place_.tern({"data", "import", "photos", "set", "--pack", "orig"}).exit_code, 0);
  const Finished trained =
      place_.tern(train("set", "run", {"--set", "data.shuffle=sequential", "--steps", "2"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("shuffle sequential: quality 0.5"));
  EXPECT_EQ(place_.report("run")["shuffle"], "sequential");
  EXPECT_LT(place_.report("run")["shuffle_quality"], 0.6);
  // Such an order follows the shards, so another packing of the same samples is another order.
  const std::vector<std::string> window = {"--set", "data.shuffle=window:1", "--steps", "3"};
  ASSERT_EQ(place_.tern({"data", "import", "photos", "in_place"}).exit_code, 0);
  ASSERT_EQ(place_.tern(train("set", "w", window)).exit_code, 0);
  EXPECT_EQ(
      place_.tern(train("set", "w", {"--set", "data.shuffle=window:1", "--steps", "5"})).exit_code,
      0);
  const Finished mistyped = place_.tern(train("set", "c", {"--set", "data.shuffle=window"}));
  EXPECT_EQ(mistyped.exit_code, kExitUsage);
  EXPECT_THAT(mistyped.err, HasSubstr("window:W"));
}

}  // namespace
}  // namespace tern
