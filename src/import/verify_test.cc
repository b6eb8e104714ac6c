#include "import/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/shard.h"
#include "import/import.h"
#include "import/import_folder.h"
#include "import/test_samples.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A packed data set of some shards, in a folder and, as it was copied, in a store.
class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    MemorySource source(some_samples(30));
    const auto made = import_dataset(source,
                                     {.destination = place_ / "dst",
                                      .pack = Representation{},
                                      .threads = 1,
                                      .shard_bytes = 1500},
                                     log_, clock_, {});
    EXPECT_TRUE(made) << made.error().message;
    copy();
  }
  void copy() {
    for (const auto& [name, bytes] : read_tree(place_ / "dst")) {
      if (name.ends_with('/')) continue;
      EXPECT_TRUE(memory_->put(name, bytes));
    }
  }
  Result<VerifyResult> verify_folder(const VerifyOptions& options = {}) {
    return verify_data_set(*find_imported(place_ / "dst"), options, log_, clock_, {});
  }
  Result<VerifyResult> verify_store(const VerifyOptions& options = {}) {
    return verify_data_set(*find_imported(store_, "s3://b/set"), options, log_, clock_, {});
  }

  TestPlace place_;
  SimClock clock_;
  Log log_{clock_, Level::error};
  const std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  const std::shared_ptr<FaultyStore> store_ = std::make_shared<FaultyStore>(*memory_);
};

TEST_F(VerifyTest, WhatIsWholeIsReadToItsLastByteAlsoInAStore) {
  for (const bool decode : {false, true}) {
    const auto folder = verify_folder({.decode = decode});
    const auto store = verify_store({.decode = decode});
    ASSERT_TRUE(folder) << folder.error().message;
    ASSERT_TRUE(store) << store.error().message;
    for (const VerifyResult& result : {*folder, *store}) {
      EXPECT_EQ(result.samples, 30);
      EXPECT_THAT(result.damages, IsEmpty());
      EXPECT_EQ(result.damaged, 0);
    }
    EXPECT_EQ(store->bytes, folder->bytes);
    EXPECT_GT(store->bytes, 30 * 100);
  }
}

TEST_F(VerifyTest, DamageIsNamedTheSameInAFolderAndInAStore) {
  const auto shard = [](int64_t number) { return ImportFolder::shard_name(number); };
  const ShardRecord record = read_shard_index(place_ / "dst" / shard(0))->at(2);
  Bytes flipped = read_whole(place_ / "dst" / shard(0));
  flipped[record.offset] = static_cast<char>(flipped[record.offset] ^ 1);
  place_.write("dst/" + shard(0), flipped);
  const Bytes whole = read_whole(place_ / "dst" / shard(1));
  place_.write("dst/" + shard(1), whole.substr(0, whole.size() - 1));
  std::filesystem::remove(place_ / "dst" / shard(2));
  ASSERT_TRUE(memory_->remove(shard(2)));
  copy();
  for (const Result<VerifyResult>& result : {verify_folder(), verify_store()}) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->damaged, 3);
    EXPECT_THAT(result->damages,
                UnorderedElementsAre(HasSubstr(record.name + " in " + shard(0)),
                                     HasSubstr(shard(1) + ": has "), HasSubstr(shard(2) + ": ")));
  }
}

TEST_F(VerifyTest, AStoreThatDoesNotAnswerIsAnErrorAndNoDamage) {
  for (int64_t request = 3; request < 8; ++request) {
    FaultyStore faulty(*memory_);
    faulty.inject(request, Fault::fail_before);
    // Not owned: it lives as long as the call.
    const std::shared_ptr<ObjectStore> store(&faulty, [](ObjectStore*) {});
    const auto result =
        verify_data_set(*find_imported(store, "s3://b/set"), {.threads = 1}, log_, clock_, {});
    ASSERT_FALSE(result) << request;
    EXPECT_EQ(result.error().code, Code::unavailable);
    EXPECT_THAT(result.error().message, HasSubstr("shards/"));
  }
}

TEST_F(VerifyTest, SamplesThatAreNotInTheStoreCannotBeVerifiedThere) {
  TestPlace elsewhere;
  std::vector<SourceSample> samples = some_samples(3);
  for (SourceSample& sample : samples) {
    sample.range = FileRange{.file = sample.name, .length = std::ssize(sample.bytes)};
    elsewhere.write(sample.name, std::exchange(sample.bytes, {}));
  }
  MemorySource source(samples, elsewhere.path());
  ASSERT_TRUE(import_dataset(source, {.destination = place_ / "in-place"}, log_, clock_, {}));
  ASSERT_TRUE(memory_->put(kIndexFile, read_whole(place_ / "in-place" / kIndexFile)));
  const auto result = verify_store();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("--pack orig"));
}

}  // namespace
}  // namespace tern
