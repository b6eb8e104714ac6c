// What prune() and the clearing of blobs drop, and what they must not.
#include "storage/faulty_store.h"
#include "storage/sequence_fixture.h"

namespace tern {
namespace {

class SequenceRetention : public SequenceTest {};

TEST_F(SequenceRetention, RetentionKeepsTheNewestAndTheBest) {
  const auto sequence = take(local_holder());
  publish(*sequence, "1", true);
  publish(*sequence, "2", true);
  for (int i = 3; i <= 7; ++i) publish(*sequence, std::to_string(i));
  ASSERT_TRUE(sequence->prune());
  for (int64_t number : {1, 2, 4, 5}) EXPECT_EQ(kind_of(number), RecordKind::pruned) << number;
  for (int64_t number : {3, 6, 7, 8}) EXPECT_EQ(kind_of(number), RecordKind::checkpoint) << number;
  EXPECT_EQ(blob_count(), 4u);
  EXPECT_TRUE(has_blob(1, "2"));
  publish(*sequence, "8", true);
  ASSERT_TRUE(sequence->prune());
  EXPECT_EQ(kind_of(3), RecordKind::pruned);
  EXPECT_EQ(blob_count(), 3u);
}

TEST_F(SequenceRetention, RetentionGoesOnUnderANewHolder) {
  const auto old = take(remote_holder("far"));
  publish(*old, "1", true);
  publish(*old, "2");
  publish(*old, "3");
  const auto next = take(remote_holder("near"));
  EXPECT_EQ(blob_count(), 3u);
  publish(*next, "4");
  ASSERT_TRUE(next->prune());
  EXPECT_EQ(kind_of(1), RecordKind::pruned);
  EXPECT_EQ(kind_of(2), RecordKind::checkpoint) << "the best";
  publish(*next, "5", true);
  ASSERT_TRUE(next->prune());
  for (int64_t number : {1, 2, 3}) EXPECT_EQ(kind_of(number), RecordKind::pruned) << number;
  EXPECT_EQ(blob_count(), 3u);
  EXPECT_TRUE(has_blob(1, "3"));
}

TEST_F(SequenceRetention, BlobThatAKeptRecordSharesIsKept) {
  keep_ = 1;
  const auto sequence = take(local_holder());
  publish(*sequence, "same");
  publish(*sequence, "same");
  ASSERT_TRUE(sequence->prune());
  EXPECT_EQ(kind_of(2), RecordKind::pruned);
  EXPECT_TRUE(has_blob(1, "same"));
  EXPECT_EQ(newest(), R"({"is":"same"})");
}

TEST_F(SequenceRetention, NothingIsDroppedWhileThereAreFewerThanAreKept) {
  ASSERT_TRUE(store_.create(record_object(1), "torn"));
  const auto sequence = take(local_holder());
  publish(*sequence, "1");
  publish(*sequence, "2");
  ASSERT_TRUE(sequence->prune());
  EXPECT_EQ(*store_.get(record_object(1)), "torn");
  publish(*sequence, "3");
  ASSERT_TRUE(sequence->prune());
  EXPECT_EQ(kind_of(2), RecordKind::pruned);
}

TEST_F(SequenceRetention, NumbersAreNeverReused) {
  keep_ = 1;
  auto sequence = take(local_holder());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(publish(*sequence, std::to_string(i)), i + 2);
    ASSERT_TRUE(sequence->prune());
  }
  const std::vector<int64_t> numbers = record_numbers(*store_.list(""));
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(store_.create(record_object(3), "x").error().code, Code::already_exists);
}

TEST_F(SequenceRetention, PrunedRecordsAreNotReadByTheNextHolder) {
  keep_ = 1;
  const auto old = take(remote_holder("far"));
  for (int i = 0; i < 50; ++i) publish(*old, std::to_string(i));
  ASSERT_TRUE(old->prune());
  ASSERT_TRUE(old->release());
  FaultyStore counted(store_);
  const auto next = take(local_holder(), counted);
  EXPECT_LT(counted.requests(), 8);
}

TEST_F(SequenceRetention, BlobsNeverPublishedAreClearedUnlessARecordIsDamaged) {
  const auto old = take(remote_holder("far"));
  publish(*old, "one");
  const std::string orphan = blob_object(1, std::string(64, 'a'));
  const std::string foreign = "blobs/notes.txt";
  ASSERT_TRUE(store_.put(orphan, "orphan"));
  ASSERT_TRUE(store_.put(foreign, "a person's"));
  ASSERT_TRUE(store_.create(record_object(3), "torn"));
  ASSERT_TRUE(old->release());
  auto next = take(remote_holder("near"));
  EXPECT_TRUE(store_.stat(orphan).has_value());
  ASSERT_TRUE(next->release());
  ASSERT_TRUE(
      store_.put(record_object(3), format_record({.number = 3, .kind = RecordKind::pruned})));
  next = take(remote_holder("near"));
  EXPECT_FALSE(store_.stat(orphan).has_value());
  EXPECT_TRUE(store_.stat(foreign).has_value());
  EXPECT_TRUE(has_blob(1, "one"));
}

TEST_F(SequenceRetention, DamagedRecordsOccupyTheirNumbersForEver) {
  keep_ = 1;
  for (int64_t number : {1, 2, 3}) ASSERT_TRUE(store_.create(record_object(number), ""));
  const auto sequence = take(local_holder());
  EXPECT_EQ(highest(store_), 4);
  ASSERT_TRUE(store_.create(record_object(5), "{\"torn"));
  EXPECT_EQ(publish(*sequence, "one"), 6);
  ASSERT_TRUE(sequence->prune());
  EXPECT_EQ(kind_of(4), RecordKind::pruned);
  EXPECT_EQ(*store_.get(record_object(1)), "");
  EXPECT_EQ(*store_.get(record_object(5)), "{\"torn");
}

TEST_F(SequenceRetention, DamagedCheckpointsAndTheirBlobsOutliveRetentionAndEveryHolder) {
  keep_ = 1;
  auto sequence = take(remote_holder("far"));
  publish(*sequence, "shared");
  publish(*sequence, "hurt", true);
  publish(*sequence, "shared");
  ASSERT_TRUE(sequence->release());
  // 2 and 3 are damaged; a third checkpoint names the same blob as one of them.
  for (int64_t number : {2, 3}) {
    ASSERT_TRUE(store_.put(record_object(number), "damaged " + std::to_string(number)));
  }
  for (int holder = 0; holder < 3; ++holder) {
    sequence = take(remote_holder("near"));
    for (int i = 0; i < 3; ++i) publish(*sequence, std::to_string(holder * 10 + i));
    ASSERT_TRUE(sequence->prune());
    ASSERT_TRUE(sequence->release());
    EXPECT_EQ(*store_.get(record_object(2)), "damaged 2") << holder;
    EXPECT_EQ(*store_.get(record_object(3)), "damaged 3") << holder;
    EXPECT_TRUE(has_blob(1, "hurt")) << holder;
    EXPECT_TRUE(has_blob(1, "shared")) << holder;
    EXPECT_EQ(kind_of(4), RecordKind::pruned) << "it is readable, so retention goes on";
    EXPECT_EQ(blob_count(), 3u) << "what came after the damage is dropped as ever";
  }
}

TEST_F(SequenceRetention, BlobsOfACommitThatWasTornAreKept) {
  keep_ = 1;
  FaultyStore faulty(store_);
  const auto sequence = take(local_holder(), faulty);
  faulty.inject(faulty.requests() + 2, Fault::tear);  // the blob's put, then the commit
  ASSERT_FALSE(sequence->publish("{}", {"torn weights"}, false).has_value());
  for (int i = 0; i < 4; ++i) {
    publish(*sequence, std::to_string(i));
    ASSERT_TRUE(sequence->prune());
    EXPECT_TRUE(has_blob(1, "torn")) << i;
    EXPECT_FALSE(read_record(store_, 2).has_value()) << i;
  }
  EXPECT_FALSE(has_blob(1, "2")) << "retention goes on";
}

}  // namespace
}  // namespace tern
