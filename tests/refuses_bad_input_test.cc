// Mistakes and damage: a clear error, the right exit code, nothing lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/machine.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;

class RefusesBadInput : public testing::Test {
 protected:
  Finished train(std::vector<std::string> more = {}) {
    return place_.tern(WorkFolder::train("run", std::move(more)));
  }
  // The newest record of the run that says it is a checkpoint.
  std::filesystem::path newest_checkpoint_record() {
    const auto checkpoints = place_.ledger("run", "checkpoint");
    EXPECT_FALSE(checkpoints.empty());
    return place_.run("run") / "checkpoints" /
           fmt_number(checkpoints.back()["number"].get<int64_t>());
  }
  static std::string fmt_number(int64_t number) {
    std::string digits = std::to_string(number);
    return std::string(8 - digits.size(), '0') + digits + ".json";
  }

  WorkFolder place_;
};

TEST_F(RefusesBadInput, EveryProblemOfARunFileAtOnceWithItsPlace) {
  write_text(place_ / "run.toml",
             "recipe = \"tiny\"\n[optimizer]\nlearning_rat = 0.1\nmomentum = \"much\"\n"
             "[train]\nbatch = -3\n");
  const Finished finished = train();
  EXPECT_EQ(finished.exit_code, kExitUsage);
  EXPECT_THAT(finished.err, HasSubstr("run.toml:3:1"));
  EXPECT_THAT(finished.err, HasSubstr("did you mean 'optimizer.learning_rate'"));
  EXPECT_THAT(finished.err, HasSubstr("run.toml:4:"));
  EXPECT_THAT(finished.err, HasSubstr("run.toml:6:"));
  EXPECT_FALSE(std::filesystem::exists(place_.run("run"))) << "something was written";
}

TEST_F(RefusesBadInput, UnknownRecipesFlagsAndCommandsSuggestTheNearest) {
  EXPECT_THAT(place_.tern({"train", "fashion-mnits"}).err, HasSubstr("fashion-mnist"));
  EXPECT_THAT(train({"--stepz", "3"}).err, HasSubstr("--steps"));
  EXPECT_THAT(place_.tern({"trian"}).err, HasSubstr("train"));
  EXPECT_EQ(place_.tern({"trian"}).exit_code, kExitUsage);
}

TEST_F(RefusesBadInput, DataThatIsMissingOrDamagedNamesTheFile) {
  const auto labels = place_ / "data" / "train-labels-idx1-ubyte";
  const std::string whole = read_text(labels);
  write_text(labels, whole.substr(0, whole.size() - 1));
  Finished finished = train();
  EXPECT_EQ(finished.exit_code, kExitCorrupt) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("train-labels-idx1-ubyte"));
  std::filesystem::remove(labels);
  finished = train();
  EXPECT_EQ(finished.exit_code, kExitNotFound) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("train-labels-idx1-ubyte"));
  EXPECT_FALSE(std::filesystem::exists(place_.run("run"))) << "something was written";
}

TEST_F(RefusesBadInput, BatchesThatTheDataOrTheNetworkCannotTake) {
  const Finished large = train({"--set", "train.batch=91"});
  EXPECT_EQ(large.exit_code, kExitUsage) << large.err;
  EXPECT_THAT(large.err, HasSubstr("a batch of 91 is larger than the whole of"));
  EXPECT_THAT(large.err, HasSubstr("which has 90 samples; lower train.batch"));

  // 8 pixels become one in the last layers: a batch of one is one value for each channel.
  const std::vector<std::string> resnet = {"--set", "model.name=\"resnet18\"",
                                           "--set", "model.stem=\"small\"",
                                           "--set", "model.dropout=0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), resnet.begin(), resnet.end());
    return train(std::move(more));
  };
  const Finished one_left = with({"--set", "train.batch=89", "--set", "train.epochs=1"});
  EXPECT_EQ(one_left.exit_code, kExitUsage) << one_left.err;
  EXPECT_THAT(one_left.err, HasSubstr("is once given a single sample"));
  EXPECT_THAT(one_left.err, HasSubstr("train.epoch_steps=1"));
  const Finished pieces =
      with({"--set", "train.batch=45", "--set", "train.accumulate=30", "--set", "train.epochs=1"});
  EXPECT_THAT(pieces.err, HasSubstr("is once given a single sample"));
  EXPECT_FALSE(std::filesystem::exists(place_.run("run"))) << "something was written";
  // What the message says to do.
  const Finished left_out =
      with({"--set", "train.batch=89", "--set", "train.epochs=1", "--set", "train.epoch_steps=1"});
  EXPECT_EQ(left_out.exit_code, kExitDone) << left_out.err;
}

TEST_F(RefusesBadInput, SixteenBitsOnACpuThatEmulatesThemAreWarnedOf) {
  const Finished finished = train({"--steps", "2", "--set", "train.precision=\"mixed\""});
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  const bool warns = finished.err.find("emulates it") != std::string::npos;
  EXPECT_EQ(warns, !cpu_has_bfloat16(read_machine())) << finished.err;
}

TEST_F(RefusesBadInput, AFolderOfAnotherRunIsRefusedWithBothValues) {
  ASSERT_EQ(train({"--steps", "5"}).exit_code, kExitDone);
  const std::string ledger = read_text(place_.run("run") / "ledger.jsonl");
  const Finished rate = train({"--steps", "9", "--set", "optimizer.learning_rate=0.5"});
  EXPECT_EQ(rate.exit_code, kExitPrecondition);
  EXPECT_THAT(rate.err, HasSubstr("optimizer.learning_rate: the run has 0.02, you ask for 0.5"));
  const Finished recipe = train({"--set", "recipe=\"other\""});
  EXPECT_EQ(recipe.exit_code, kExitPrecondition);
  EXPECT_EQ(read_text(place_.run("run") / "ledger.jsonl"), ledger) << "a refusal left a trace";
}

TEST_F(RefusesBadInput, AnotherDataSetUnderTheSamePathIsRefused) {
  ASSERT_EQ(train({"--steps", "5"}).exit_code, kExitDone);
  const std::string weights = read_text(place_.run("run") / "model.safetensors");
  write_tiny_data(place_ / "data", {.seed = 8});
  const Finished finished = train({"--steps", "9"});
  EXPECT_EQ(finished.exit_code, kExitPrecondition);
  EXPECT_THAT(finished.err, HasSubstr("the data is not what the run was trained on"));
  EXPECT_EQ(read_text(place_.run("run") / "model.safetensors"), weights);
  write_tiny_data(place_ / "data", {});
  EXPECT_EQ(train({"--steps", "9"}).exit_code, kExitDone);
}

TEST_F(RefusesBadInput, ARunFileFromAPipeWhichCannotBeReadTwice) {
  Process::Start start = place_.start({});
  start.command = {"bash", "-c",
                   std::string(TERN_PROGRAM) + " train <(cat run.toml) --run run --steps 3"};
  const Finished finished = run_to_end(start);
  EXPECT_EQ(finished.exit_code, kExitUsage) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("save the run file"));
}

TEST_F(RefusesBadInput, ALibcurlThatIsDamagedIsNamedByWhatNeedsItAndByNothingElse) {
  write_text(place_ / "libcurl.so.4", "no library");
  const std::map<std::string, std::string> damaged = {{"LD_LIBRARY_PATH", (place_ / ".").string()},
                                                      {"AWS_ACCESS_KEY_ID", "key"},
                                                      {"AWS_SECRET_ACCESS_KEY", "secret"}};
  const Finished store = run_to_end(
      {.command = {TERN_PROGRAM, "store", "ls", "s3://bucket/prefix"}, .environment = damaged});
  EXPECT_EQ(store.exit_code, kExitNotFound) << store.err;
  EXPECT_THAT(store.err, HasSubstr("Debian's package is libcurl4"));
  EXPECT_EQ(run_to_end({.command = {TERN_PROGRAM, "recipes"}, .environment = damaged}).exit_code,
            kExitDone);
}

TEST_F(RefusesBadInput, FreshMovesNothingIfTheNewRunCannotBegin) {
  ASSERT_EQ(train({"--steps", "5"}).exit_code, kExitDone);
  EXPECT_EQ(train({"--fresh", "--set", "data.path=\"nowhere\""}).exit_code, kExitNotFound);
  EXPECT_FALSE(std::filesystem::exists(place_.run("run.1")));
  EXPECT_EQ(place_.report("run")["step"], 5);
}

TEST_F(RefusesBadInput, ADamagedCheckpointIsNamedAndThePreviousOneUsed) {
  ASSERT_EQ(train({"--steps", "5", "--set", "checkpoint.every=0"}).exit_code, kExitDone);
  const auto record = newest_checkpoint_record();
  std::string bytes = read_text(record);
  bytes[bytes.size() / 3] ^= 4;
  write_text(record, bytes);
  const Finished finished = train({"--steps", "9"});
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("is damaged and was skipped"));
  EXPECT_EQ(place_.ledger("run", "resume")[0]["step"], 4);
  ASSERT_EQ(place_.tern(WorkFolder::train("whole", {"--steps", "9"})).exit_code, kExitDone);
  EXPECT_EQ(place_.losses("run"), place_.losses("whole"));
}

TEST_F(RefusesBadInput, WithNoWholeCheckpointItSaysSoStartsAtZeroAndKeepsTheFiles) {
  ASSERT_EQ(train({"--steps", "6"}).exit_code, kExitDone);
  std::vector<std::filesystem::path> blobs;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(place_.run("run") / "checkpoints" / "blobs")) {
    if (entry.is_regular_file()) blobs.push_back(entry.path());
  }
  ASSERT_FALSE(blobs.empty());
  for (const auto& blob : blobs) write_text(blob, "x");
  const Finished finished = train({"--steps", "6"});
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("no checkpoint is whole"));
  EXPECT_EQ(place_.ledger("run", "resume")[0]["step"], 0);
  EXPECT_EQ(place_.ledger("run", "resume")[0]["steps_lost"], 6);
  for (const auto& blob : blobs) EXPECT_EQ(read_text(blob), "x");
}

TEST_F(RefusesBadInput, ALossThatIsNoNumberFailsTheRunWithItsCause) {
  const Finished finished =
      train({"--set", "optimizer.learning_rate=900.0", "--set", "optimizer.weight_decay=1.0"});
  EXPECT_EQ(finished.exit_code, kExitDiverged) << finished.err;
  const auto report = place_.report("run");
  EXPECT_EQ(report["status"], "failed");
  EXPECT_THAT(report["reason"].get<std::string>(), HasSubstr("diverged"));
  EXPECT_TRUE(std::filesystem::exists(place_.run("run") / "report.json"));
}

TEST_F(RefusesBadInput, AReportOfNothingSaysWhatToTry) {
  const Finished finished = place_.tern({"report", "nowhere"});
  EXPECT_EQ(finished.exit_code, kExitNotFound);
  EXPECT_THAT(finished.err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace tern
