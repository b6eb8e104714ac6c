#include "cli/run_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/run_list.h"
#include "cli/store_commands.h"
#include "cli/test_run.h"
#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/sequence_reader.h"
#include "train/run_place.h"

namespace tern {
namespace {

using testing::HasSubstr;

class RunCopyTest : public testing::Test {
 protected:
  RunCopyTest() {
    runs_.write_ledger("demo", "done");
    runs_.publish("demo", dead_holder(), {10, 20});
    runs_.write("demo", "run.toml", "");
    runs_.write("demo", "create_only.txt", "s3://elsewhere/x\n");
    from_ = DiskStore::open(runs_ / "demo", runs_.door()).value();
  }
  RunCopySetup setup(ObjectStore& to) {
    return {.from = from_.get(), .to = &to, .from_name = "runs/demo", .to_name = "s3://b/demo"};
  }
  void expect_equal(ObjectStore& to) {
    std::vector<ObjectInfo> wanted = from_->list("").value();
    std::erase_if(wanted, [](const ObjectInfo& each) { return each.name == kCreateOnlyObject; });
    ASSERT_EQ(to.list("").value(), wanted);
    for (const ObjectInfo& each : wanted) {
      EXPECT_EQ(to.get(each.name).value(), from_->get(each.name).value()) << each.name;
    }
  }

  TestRuns runs_;
  std::unique_ptr<DiskStore> from_;
  MemoryStore to_;
};

TEST_F(RunCopyTest, EveryObjectIsCopiedButWhatBelongsToThePlace) {
  const auto copied = copy_run(setup(to_), nullptr);
  ASSERT_TRUE(copied) << copied.error().to_string();
  EXPECT_EQ(copied->there_before, 0);
  EXPECT_EQ(refuse_unfinished(to_, "it").error().code, Code::failed_precondition);
  ASSERT_TRUE(finish_copy(setup(to_)));
  EXPECT_TRUE(refuse_unfinished(to_, "it"));
  expect_equal(to_);
  PrefixStore checkpoints(to_, "checkpoints");
  EXPECT_EQ(list_checkpoints(checkpoints)->checkpoints.size(), 2U);
}

TEST_F(RunCopyTest, AKillAtAnyRequestLeavesWhatIsNoRunAndTheSameCopyGoesOn) {
  for (int at = 1;; ++at) {
    MemoryStore to;
    FaultyStore faulty(to);
    faulty.inject(at, Fault::fail_before);
    const auto broken = copy_run(setup(faulty), nullptr);
    if (broken) {
      EXPECT_GT(at, 20) << "there were that many requests";
      break;
    }
    const ListedRun listed = read_listed_run(to, "copy", 0);
    EXPECT_TRUE(to.list("").value().empty() || listed.status == "not whole") << at;
    const auto again = copy_run(setup(to), nullptr);
    ASSERT_TRUE(again) << at << ": " << again.error().to_string();
    ASSERT_TRUE(finish_copy(setup(to)));
    expect_equal(to);
  }
}

TEST_F(RunCopyTest, WhatTheRunHasDroppedSinceIsNotInTheCopy) {
  ASSERT_TRUE(copy_run(setup(to_), nullptr));
  ASSERT_TRUE(from_->remove("run.toml"));
  const auto again = copy_run(setup(to_), nullptr);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->there_before, again->objects);
  ASSERT_TRUE(finish_copy(setup(to_)));
  expect_equal(to_);
}

TEST_F(RunCopyTest, APlaceThatHoldsSomethingElseIsLeftAlone) {
  ASSERT_TRUE(to_.put("thesis.pdf", "x"));
  const auto refused = copy_run(setup(to_), nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_THAT(refused.error().message, HasSubstr("thesis.pdf"));
  EXPECT_EQ(to_.list("")->size(), 1U);

  MemoryStore other;
  ASSERT_TRUE(copy_run(setup(other), nullptr));
  RunCopySetup another = setup(other);
  another.from_name = "runs/another";
  EXPECT_EQ(copy_run(another, nullptr).error().code, Code::failed_precondition);
}

// Both looked before either had begun.
TEST_F(RunCopyTest, OfTwoCopiesThatBeginTogetherOneIsRefused) {
  FaultyStore faulty(to_);
  faulty.inject(3, Fault::delay,
                [&] { EXPECT_TRUE(to_.put(kUnfinishedObject, "a copy of another run\n")); });
  const auto refused = copy_run(setup(faulty), nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_THAT(refused.error().message, HasSubstr("another copy"));
  EXPECT_EQ(to_.list("")->size(), 1U) << "nothing was mixed in";

  MemoryStore other;
  FaultyStore slow(other);
  slow.inject(3, Fault::delay, [&] { EXPECT_TRUE(other.put("run.toml", "a whole copy")); });
  const auto late = copy_run(setup(slow), nullptr);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::failed_precondition);
  EXPECT_EQ(other.get("run.toml").value(), "a whole copy");
  EXPECT_TRUE(refuse_unfinished(other, "it")) << "which stays a run";
}

// Says that all is well, and has changed a byte.
class LyingStore final : public ObjectStore {
 public:
  Result<Bytes> get(const std::string& name) override { return inner_.get(name); }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return inner_.get_range(name, offset, length);
  }
  Status put(const std::string& name, BytesView bytes) override {
    Bytes changed(bytes);
    if (name.starts_with("checkpoints/") && changed.size() > 100) changed[99] ^= 1;
    return inner_.put(name, changed);
  }
  Status create(const std::string& name, BytesView bytes) override {
    return inner_.create(name, bytes);
  }
  Result<ObjectInfo> stat(const std::string& name) override { return inner_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return inner_.list(prefix);
  }
  Status remove(const std::string& name) override { return inner_.remove(name); }
  std::optional<std::filesystem::path> local_path(const std::string&) const override {
    return std::nullopt;
  }

 private:
  MemoryStore inner_;
};

TEST_F(RunCopyTest, ACopyThatReadsOtherwiseIsFound) {
  LyingStore lying;
  const auto copied = copy_run(setup(lying), nullptr);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Code::corrupt);
}

TEST_F(RunCopyTest, TheCommandCopiesBetweenFolders) {
  const std::string out = output_of(
      [&] { return run_copy_command({}, {(runs_ / "demo").string(), (runs_ / "copy").string()}); });
  EXPECT_THAT(out, HasSubstr("every one read again and equal"));
  const auto copy = DiskStore::open(runs_ / "copy", runs_.door()).value();
  expect_equal(*copy);
  EXPECT_EQ(
      run_copy_command({}, {(runs_ / "demo").string(), (runs_ / "demo/").string()}).error().code,
      Code::invalid);
  EXPECT_EQ(run_copy_command({}, {(runs_ / "none").string(), (runs_ / "x").string()}).error().code,
            Code::not_found);
}

TEST_F(RunCopyTest, ARunThatIsTrainedIsRefused) {
  Holder alive = *this_process();
  alive.token = "another process, alive as this one is";
  runs_.publish("held", alive, {10});
  const auto refused = run_copy_command({}, {(runs_ / "held").string(), (runs_ / "copy").string()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_THAT(refused.error().message, HasSubstr("is being trained by"));
  EXPECT_FALSE(std::filesystem::exists(runs_ / "copy"));
}

}  // namespace
}  // namespace tern
