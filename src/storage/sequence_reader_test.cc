// Listing and verifying checkpoints. newest_checkpoint() and newest_record() are tested with the
// holder's side, in sequence_test.cc.
#include "storage/sequence_reader.h"

#include <gmock/gmock.h>

#include "storage/faulty_store.h"
#include "storage/sequence_fixture.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SequenceList : public SequenceTest {
 protected:
  std::vector<int64_t> listed() {
    std::vector<int64_t> numbers;
    const Result<CheckpointList> list = list_checkpoints(store_);
    EXPECT_TRUE(list.has_value()) << list.error().to_string();
    if (!list) return {};
    for (const SequenceRecord& record : list->checkpoints) numbers.push_back(record.number);
    return numbers;
  }
  std::string only_blob() { return store_.list("blobs/")->front().name; }
};

TEST_F(SequenceList, AnEmptyStoreHoldsNoCheckpoints) { EXPECT_THAT(listed(), ElementsAre()); }

TEST_F(SequenceList, ListsCheckpointsAndNothingElse) {
  const auto sequence = take(local_holder());  // record 1
  publish(*sequence, "a");
  ASSERT_TRUE(sequence->confirm());
  publish(*sequence, "b", true);
  ASSERT_TRUE(sequence->release());
  const Result<CheckpointList> list = list_checkpoints(store_);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(listed(), ElementsAre(2, 4));
  EXPECT_EQ(list->checkpoints[0].state, R"({"is":"a"})");
  EXPECT_TRUE(list->checkpoints[1].best);
  EXPECT_TRUE(list->damaged.empty());
}

TEST_F(SequenceList, WhatRetentionDroppedIsNeitherListedNorRead) {
  keep_ = 2;
  const auto sequence = take(local_holder());
  for (int i = 0; i < 50; ++i) publish(*sequence, std::to_string(i));
  ASSERT_TRUE(sequence->prune());
  FaultyStore counted(store_);
  const Result<CheckpointList> list = list_checkpoints(counted);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(listed(), ElementsAre(50, 51));
  EXPECT_EQ(counted.requests(), 3) << "one list, two records";
}

TEST_F(SequenceList, ADamagedRecordIsNamedAndTheOthersAreListed) {
  const auto sequence = take(local_holder());
  for (const char* text : {"a", "b", "c"}) publish(*sequence, text);
  Bytes bytes = *store_.get(record_object(3));
  bytes[10] = static_cast<char>(bytes[10] ^ 1);
  ASSERT_TRUE(store_.put(record_object(3), bytes));
  const Result<CheckpointList> list = list_checkpoints(store_);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(listed(), ElementsAre(2, 4));
  ASSERT_EQ(list->damaged.size(), 1u);
  EXPECT_EQ(list->damaged[0].number, 3);
  EXPECT_EQ(list->damaged[0].error.code, Code::corrupt);
}

TEST_F(SequenceList, AStoreThatDoesNotAnswerIsNoDamage) {
  const auto sequence = take(local_holder());
  publish(*sequence, "a");
  FaultyStore faulty(store_);
  faulty.inject(3, Fault::fail_before);  // list, record 1, record 2
  const Result<CheckpointList> list = list_checkpoints(faulty);
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().code, Code::unavailable);
}

TEST_F(SequenceList, VerifyingReadsEveryBlobAndNamesTheDamagedOne) {
  const auto sequence = take(local_holder());
  publish(*sequence, "a");
  const SequenceRecord checkpoint = list_checkpoints(store_)->checkpoints.at(0);
  EXPECT_TRUE(verify_blobs(store_, checkpoint).has_value());

  const std::string blob = only_blob();
  const Bytes whole = *store_.get(blob);
  for (size_t i = 0; i < whole.size(); ++i) {
    Bytes bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    ASSERT_TRUE(store_.put(blob, bytes));
    EXPECT_EQ(verify_blobs(store_, checkpoint).error().code, Code::corrupt) << "byte " << i;
  }
  ASSERT_TRUE(store_.put(blob, whole.substr(1)));
  EXPECT_THAT(verify_blobs(store_, checkpoint).error().message, HasSubstr(blob));
  ASSERT_TRUE(store_.remove(blob));
  EXPECT_THAT(verify_blobs(store_, checkpoint).error().message, HasSubstr("is missing"));
}

}  // namespace
}  // namespace tern
