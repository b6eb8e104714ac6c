#include "train/run_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(HoldsRun, ALedgerOrARecordSaysSo) {
  const auto holds = [](const std::string& name) {
    MemoryStore store;
    EXPECT_TRUE(store.put(name, "x"));
    return holds_run(store).value();
  };
  EXPECT_TRUE(holds("ledger.jsonl"));
  EXPECT_TRUE(holds("ledger.jsonl.d/00000001"));
  EXPECT_TRUE(holds("checkpoints/00000001.json"));
  for (const char* name : {"run.toml", "ledger.jsonl2", "ledger.jsonl.bak", "checkpoints/best.pth",
                           "metrics.jsonl", "a/ledger.jsonl"}) {
    EXPECT_FALSE(holds(name)) << name;
  }
}

TEST(ForeignNames, AreThoseThatNoRunWrites) {
  std::vector<ObjectInfo> objects;
  for (const char* name :
       {"run.toml", "ledger.jsonl", "ledger.jsonl.d/00000001", "metrics.jsonl.d/00000001",
        "log.txt.d/00000001", "checkpoints/00000001", "checkpoints/blobs/x", "samples.jsonl",
        "tensorboard/events.out", "accuracy.tsv", "report.json", "classes.txt", "create_only.txt",
        "unfinished.txt", "model.safetensors", "best.safetensors"}) {
    objects.push_back({name, 1});
  }
  EXPECT_THAT(foreign_names(objects), IsEmpty());
  for (const char* name : {"thesis.pdf", "other/ledger.jsonl", "other/x", "run.toml/x", "x.d/1"}) {
    objects.push_back({name, 1});
  }
  EXPECT_THAT(foreign_names(objects), ElementsAre("other", "run.toml", "thesis.pdf", "x.d"));
}

TEST(RefuseUnfinished, SaysWhatTheMarkSays) {
  MemoryStore store;
  EXPECT_TRUE(refuse_unfinished(store, "s3://b/demo"));
  ASSERT_TRUE(store.put(kUnfinishedObject, "it is half a copy; copy it again\n"));
  const Status refused = refuse_unfinished(store, "s3://b/demo");
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_EQ(refused.error().message, "s3://b/demo is not whole: it is half a copy; copy it again");
}

TEST(RefuseOldRun, TakesAnEmptyPlaceAndNamesTheCommandsForAFullOne) {
  MemoryStore store;
  EXPECT_TRUE(refuse_old_run(store, "s3://b/demo"));
  ASSERT_TRUE(store.put(kCreateOnlyObject, "s3://b/demo\n"));
  EXPECT_TRUE(refuse_old_run(store, "s3://b/demo")) << "a start that was refused left this alone";
  ASSERT_TRUE(store.put("thesis.pdf", "x"));
  EXPECT_THAT(refuse_old_run(store, "s3://b/demo").error().message,
              HasSubstr("holds no run but thesis.pdf"));
  ASSERT_TRUE(store.put("ledger.jsonl.d/00000001", "x"));
  const Status refused = refuse_old_run(store, "s3://b/demo");
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_THAT(refused.error().message,
              testing::AllOf(HasSubstr("`tern run copy s3://b/demo s3://b/demo.1`"),
                             HasSubstr("`tern rm s3://b/demo`")));
}

TEST(OpenRun, OpensAFolderWhateverItHolds) {
  std::string folder = testing::TempDir() + "run_place_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  SimClock clock;
  CloudDoor door({}, clock);
  const StoreAddress place{.prefix = folder};
  const auto run = open_run(door, place);
  ASSERT_TRUE(run);
  EXPECT_TRUE(prepare_run_place(door, place, **run, MissingBucket::refuse));
  EXPECT_TRUE((*run)->list("")->empty()) << "a folder needs no trial";
  ASSERT_TRUE((*run)->put(kUnfinishedObject, "half"));
  EXPECT_EQ(open_run(door, place).error().code, Code::failed_precondition);
  std::filesystem::remove_all(folder);
}

// Keeps what it is told, under the name of a bucket.
TEST(PrepareRunPlace, TriesABucketOnceAndRemembersWhere) {
  MemoryStore run;
  SimClock clock;
  CloudDoor door({}, clock);
  const StoreAddress place{.kind = StoreAddress::Kind::s3, .bucket = "bucket", .prefix = "demo"};
  ASSERT_TRUE(prepare_run_place(door, place, run, MissingBucket::refuse));
  EXPECT_EQ(run.list("").value().size(), 1U) << "the trial's objects are gone";
  EXPECT_EQ(run.get(kCreateOnlyObject).value(), "s3://bucket/demo\n");
  // A copy from elsewhere says nothing about this place.
  ASSERT_TRUE(run.put(kCreateOnlyObject, "gs://bucket/demo\n"));
  ASSERT_TRUE(prepare_run_place(door, place, run, MissingBucket::refuse));
  EXPECT_EQ(run.get(kCreateOnlyObject).value(), "s3://bucket/demo\n");
}

}  // namespace
}  // namespace tern
