#include "train/branch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

#include "core/hash.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Which = BranchSource::Which;

std::string toml_of(RunConfig config) {
  return describe_run(config).to_toml(OptionSet::Comments::no);
}

RunConfig some_run() {
  RunConfig config;
  config.recipe = "tiny";
  config.train.threads = 3;
  return config;
}

TEST(ParseFrom, TakesAFolderAStepOrTheBest) {
  EXPECT_EQ(parse_from("demo")->to_string(), "runs/demo");
  EXPECT_EQ(parse_from("demo")->which, Which::newest);
  EXPECT_EQ(parse_from("demo@0")->to_string(), "runs/demo@0");
  EXPECT_EQ(parse_from("a/b@1200")->step, 1200);
  EXPECT_EQ(parse_from("a/b@1200")->which, Which::step);
  EXPECT_EQ(parse_from("a/b@1200")->run.to_string(), "a/b");
  EXPECT_EQ(parse_from("demo@best")->which, Which::best);
  EXPECT_EQ(parse_from("file:///var/run1@7")->run.to_string(), "/var/run1");
  EXPECT_EQ(parse_from("./me@here@5")->to_string(), "./me@here@5");
  EXPECT_EQ(parse_from("me@here/run")->run.to_string(), "me@here/run");
  EXPECT_EQ(parse_from("me@here/run")->which, Which::newest);
  EXPECT_EQ(parse_from("s3://bucket/a/run@7")->run.to_string(), "s3://bucket/a/run");
  EXPECT_EQ(parse_from("s3://bucket/a/run@7")->step, 7);
}

TEST(ParseFrom, RefusesWhatIsNoStepAndSaysWhatToWrite) {
  for (const char* text :
       {"", "@5", "demo@", "demo@last", "demo@-1", "demo@1.5", "demo@5 ",
        "demo@99999999999999999999", "demo@0x10", "s3://bucket@5", "ftp://bucket/run@5"}) {
    const auto source = parse_from(text);
    ASSERT_FALSE(source.has_value()) << text;
    EXPECT_EQ(source.error().code, Code::invalid) << text;
    EXPECT_THAT(source.error().message, HasSubstr("--from")) << text;
  }
}

TEST(CheckNewFolder, RefusesTheSourceItselfHoweverItIsSpelt) {
  std::string scratch = testing::TempDir() + "branch_XXXXXX";
  ASSERT_NE(mkdtemp(scratch.data()), nullptr);
  const fs::path folder = scratch;
  fs::create_directories(folder / "a");
  fs::create_symlink(folder / "a", folder / "link");
  const BranchSource source{.run = {.prefix = folder / "a"}};
  for (const fs::path& same : {folder / "a", folder / "a/", folder / "b/../a", folder / "link",
                               fs::relative(folder / "a")}) {
    const Status refused = check_new_folder(source, {.prefix = same});
    ASSERT_FALSE(refused.has_value()) << same;
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_THAT(refused.error().message, HasSubstr("--run"));
  }
  EXPECT_TRUE(check_new_folder(source, {.prefix = folder / "b"}).has_value());
  EXPECT_TRUE(check_new_folder(source, {.prefix = folder / "a/b"}).has_value());
  const auto cloud = parse_from("s3://bucket/run@5");
  EXPECT_FALSE(check_new_folder(*cloud, *parse_run_place("s3://bucket/run/")).has_value());
  EXPECT_TRUE(check_new_folder(*cloud, *parse_run_place("gs://bucket/run")).has_value());
  fs::remove_all(folder);
}

// A store in which something happens at the first reading of one object.
class StoreWithAnEvent final : public ObjectStore {
 public:
  Result<Bytes> get(const std::string& name) override {
    if (name == at_ && event_) std::exchange(event_, nullptr)();
    return inner_.get(name);
  }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return inner_.get_range(name, offset, length);
  }
  Status put(const std::string& name, BytesView bytes) override { return inner_.put(name, bytes); }
  Status create(const std::string& name, BytesView bytes) override {
    return inner_.create(name, bytes);
  }
  Result<ObjectInfo> stat(const std::string& name) override { return inner_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return inner_.list(prefix);
  }
  Status remove(const std::string& name) override { return inner_.remove(name); }
  std::optional<fs::path> local_path(const std::string& name) const override {
    return inner_.local_path(name);
  }

  void when_reading(const std::string& name, std::function<void()> event) {
    at_ = name;
    event_ = std::move(event);
  }

 private:
  MemoryStore inner_;
  std::string at_;
  std::function<void()> event_;
};

class BranchPoint : public testing::Test {
 protected:
  static std::string weights(int64_t step) { return "weights of " + std::to_string(step); }
  static std::string blob_of(int64_t step) { return blob_object(1, to_hex(sha256(weights(step)))); }

  // Writes record `number` as a run would.
  void publish(int64_t number, int64_t step, bool best = false) {
    CheckpointText text{.state = {.step = step},
                        .config_toml = toml_of(some_run()),
                        .version = "0.1.0",
                        .dataset_id = "data",
                        .instruction_set = "AVX2",
                        .threads = 3,
                        .steps_per_epoch = 10};
    const std::string hash = to_hex(sha256(weights(step)));
    ASSERT_TRUE(store_.put(blob_of(step), weights(step)).has_value());
    write({.number = number,
           .kind = RecordKind::checkpoint,
           .best = best,
           .state = *format_state(text, {}),
           .blobs = {{blob_of(step), hash, static_cast<int64_t>(weights(step).size())}}});
  }
  void write(SequenceRecord record) {
    record.holder = this_process().value_or(Holder{});
    ASSERT_TRUE(store_.put(record_object(record.number), format_record(record)).has_value());
  }
  void drop(int64_t number, int64_t step) {
    write({.number = number, .kind = RecordKind::pruned});
    ASSERT_TRUE(store_.remove(blob_of(step)).has_value());
  }
  Result<ResumePoint> find(Which which, int64_t step = 0) {
    return find_branch_point(store_, {.run = {.prefix = "runs/old"}, .which = which, .step = step});
  }

  // Checkpoints of steps 100 (pruned), 200 (best), 300 and 400, with leases between.
  void SetUp() override {
    write({.number = 1, .kind = RecordKind::lease, .lease = 1});
    publish(2, 100);
    drop(2, 100);
    publish(3, 200, /*best=*/true);
    write({.number = 4, .kind = RecordKind::lease, .lease = 1});
    publish(5, 300);
    publish(6, 400);
    write({.number = 7, .kind = RecordKind::release, .lease = 1});
  }

  StoreWithAnEvent store_;
};

TEST_F(BranchPoint, IsTheStepTheBestOrTheNewest) {
  const auto step = find(Which::step, 300);
  ASSERT_TRUE(step.has_value()) << step.error().to_string();
  EXPECT_EQ(step->text.state.step, 300);
  EXPECT_EQ(step->checkpoint.record.number, 5);
  EXPECT_THAT(step->checkpoint.blobs, ElementsAre(weights(300)));
  EXPECT_EQ(find(Which::best)->text.state.step, 200);
  EXPECT_EQ(find(Which::newest)->text.state.step, 400);
}

TEST_F(BranchPoint, OfTwoOfOneStepIsTheLaterOne) {
  publish(8, 300);
  EXPECT_EQ(find(Which::step, 300)->checkpoint.record.number, 8);
  EXPECT_EQ(find(Which::newest)->checkpoint.record.number, 8);
  publish(9, 500, /*best=*/true);
  EXPECT_EQ(find(Which::best)->text.state.step, 500);
}

TEST_F(BranchPoint, AStepThatIsNotThereListsThoseThatAreNearestFirst) {
  const auto missing = find(Which::step, 310);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("no checkpoint of step 310"));
  EXPECT_THAT(missing.error().message, HasSubstr("steps 300, 400, 200 "));
  EXPECT_THAT(find(Which::step, 100).error().message, HasSubstr("steps 200, 300, 400 "))
      << "one that was dropped is not there";
  for (int64_t i = 0; i < 20; ++i) publish(10 + i, 1000 + i);
  EXPECT_THAT(find(Which::step, 2000).error().message,
              HasSubstr("steps 1019, 1018, 1017, 1016, 1015, 1014, 1013, 1012 and 15 more"));
}

TEST_F(BranchPoint, ARunWithoutAnyIsSaidToHaveNone) {
  MemoryStore empty;
  const auto none = find_branch_point(empty, {.run = {.prefix = "runs/none"}});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("runs/none has no checkpoint"));
  drop(3, 200);
  EXPECT_EQ(find(Which::best).error().code, Code::not_found);
  EXPECT_THAT(find(Which::best).error().message, HasSubstr("400, 300"));
}

TEST_F(BranchPoint, ADamagedOneIsNamedAndNeverReplacedByAnother) {
  // An older record of the same step does not stand in for it either.
  publish(8, 400);
  const std::string whole = weights(400);
  for (size_t i = 0; i <= whole.size(); ++i) {
    std::string damaged = whole;
    if (i < whole.size()) damaged[i] = static_cast<char>(damaged[i] ^ 1);
    if (i == whole.size()) damaged.pop_back();
    ASSERT_TRUE(store_.put(blob_of(400), damaged).has_value());
    for (const auto& point : {find(Which::newest), find(Which::step, 400)}) {
      ASSERT_FALSE(point.has_value()) << i;
      EXPECT_EQ(point.error().code, Code::corrupt);
      EXPECT_THAT(point.error().message, HasSubstr(blob_of(400)));
      EXPECT_THAT(point.error().message, HasSubstr("by its step: 300, 200"));
    }
  }
  ASSERT_TRUE(store_.remove(blob_of(400)).has_value());
  EXPECT_EQ(find(Which::newest).error().code, Code::corrupt);
  EXPECT_EQ(find(Which::step, 300)->text.state.step, 300) << "the others can still be used";
}

TEST_F(BranchPoint, ARecordThatCannotBeReadIsNotTakenForAbsent) {
  ASSERT_TRUE(store_.put(record_object(6), "nonsense").has_value());
  const auto newest = find(Which::newest);
  ASSERT_FALSE(newest.has_value());
  EXPECT_EQ(newest.error().code, Code::corrupt);
  EXPECT_THAT(newest.error().message, HasSubstr("record 6 "));
  EXPECT_EQ(find(Which::best).error().code, Code::corrupt);
  EXPECT_EQ(find(Which::step, 300)->text.state.step, 300);
  EXPECT_THAT(find(Which::step, 400).error().message, HasSubstr("record 6 "));
  // Damage from before the one that is meant does not matter.
  publish(8, 500, /*best=*/true);
  EXPECT_EQ(find(Which::newest)->text.state.step, 500);
  EXPECT_EQ(find(Which::best)->text.state.step, 500);
}

TEST_F(BranchPoint, ARunThatGoesOnMeanwhileIsLookedAtAgain) {
  store_.when_reading(blob_of(400), [this] {
    publish(8, 500);
    drop(6, 400);
  });
  const auto newest = find(Which::newest);
  ASSERT_TRUE(newest.has_value()) << newest.error().to_string();
  EXPECT_EQ(newest->text.state.step, 500);

  store_.when_reading(blob_of(300), [this] { drop(5, 300); });
  const auto dropped = find(Which::step, 300);
  ASSERT_FALSE(dropped.has_value());
  EXPECT_EQ(dropped.error().code, Code::not_found) << dropped.error().message;
}

class CheckBranch : public testing::Test {
 protected:
  CheckpointText source_{.config_toml = toml_of(some_run()), .dataset_id = "0123456789abcdef"};
};

TEST_F(CheckBranch, WhatMayDifferIsListedAndAnOpenThreadCountAdopted) {
  RunConfig mine = some_run();
  EXPECT_TRUE(check_branch(mine, source_.dataset_id, source_)->empty());
  mine.train.threads = 0;
  mine.recipe = "another";
  mine.optimizer.learning_rate = 0.5;
  mine.schedule.shape = "constant";
  mine.model.dropout = 0.5;
  mine.augment.flip = !mine.augment.flip;
  mine.data.path = "/elsewhere";
  mine.train.epochs = 9;
  const auto changes = check_branch(mine, source_.dataset_id, source_);
  ASSERT_TRUE(changes.has_value()) << changes.error().to_string();
  EXPECT_EQ(mine.train.threads, 3);
  std::vector<std::string> keys;
  for (const OptionChange& change : *changes) keys.push_back(change.key);
  EXPECT_THAT(keys, testing::UnorderedElementsAre("recipe", "optimizer.learning_rate",
                                                  "schedule.shape", "model.dropout", "augment.flip",
                                                  "data.path", "train.epochs"));
}

TEST_F(CheckBranch, WhatMakesThePositionMeaninglessIsRefusedWithBothValues) {
  RunConfig mine = some_run();
  mine.train.batch = 7;
  mine.train.seed = 99;
  mine.model.width = 16;
  mine.model.name = "cifar-tutorial";
  mine.data.format = "cifar10";
  mine.data.classes = 4;
  mine.optimizer.learning_rate = 0.5;
  const auto refused = check_branch(mine, "fedcba9876543210", source_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  for (const char* line :
       {"train.batch: the other run has 128, you ask for 7",
        "train.seed: the other run has 1, you ask for 99",
        "model.width: the other run has 32, you ask for 16",
        "model.name: the other run has \"small-cnn\", you ask for \"cifar-tutorial\"",
        "data.format: the other run has \"idx\", you ask for \"cifar10\"",
        "data.classes: the other run has 10, you ask for 4", "0123456789ab", "fedcba987654"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(line));
  }
  EXPECT_THAT(refused.error().message, Not(HasSubstr("learning_rate")));
}

TEST_F(CheckBranch, EachOfThemAloneIsRefused) {
  const std::vector<std::function<void(RunConfig&)>> changes = {
      [](RunConfig& config) { config.train.batch = 7; },
      [](RunConfig& config) { config.train.seed = 99; },
      [](RunConfig& config) { config.model.width = 16; },
      [](RunConfig& config) { config.model.name = "cifar-tutorial"; },
      [](RunConfig& config) { config.data.format = "cifar10"; },
      [](RunConfig& config) { config.data.classes = 4; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    RunConfig mine = some_run();
    changes[i](mine);
    EXPECT_FALSE(check_branch(mine, source_.dataset_id, source_).has_value()) << i;
  }
  RunConfig mine = some_run();
  EXPECT_FALSE(check_branch(mine, "another", source_).has_value());
}

TEST_F(CheckBranch, OptionsThatCannotBeReadDecideNothing) {
  RunConfig mine = some_run();
  source_.config_toml = "seed = [";
  EXPECT_EQ(check_branch(mine, source_.dataset_id, source_).error().code, Code::corrupt);
}

}  // namespace
}  // namespace tern
