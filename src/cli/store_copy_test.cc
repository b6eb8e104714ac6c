#include "cli/store_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <iterator>

#include "cli/test_run.h"
#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StoreCopyTest : public testing::Test {
 protected:
  StoreCopyTest() : disk_(DiskStore::open(place_ / "disk", door_).value()) {
    fs::create_directories(place_ / "disk");
  }

  CopySetup setup(ObjectStore& from, ObjectStore& to) {
    return {.from = &from,
            .to = &to,
            .move = {.part_bytes = 1000, .in_flight_max = 3},
            .on_bytes = [this](int64_t bytes) { moved_ += bytes; }};
  }
  static CopyItem item(ObjectStore& from, const std::string& name, const std::string& to) {
    return {from.stat(name).value(), to};
  }
  static Bytes noise(size_t bytes) {
    Bytes text(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 2654435761U) >> 11);
    return text;
  }
  // Everything below the folder, also what is no object.
  size_t files() const {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(place_ / "disk")) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }

  TestRuns place_;
  RealFileDoor door_;
  std::unique_ptr<DiskStore> disk_;
  MemoryStore bucket_;
  std::atomic<int64_t> moved_ = 0;
};

TEST_F(StoreCopyTest, ObjectsBecomeFilesAndFilesObjectsWhateverTheirSize) {
  std::vector<CopyItem> down;
  int64_t bytes = 0;
  for (const size_t size : {0U, 1U, 999U, 1000U, 1001U, 12'345U}) {
    const std::string name = "from/" + std::to_string(size);
    ASSERT_TRUE(bucket_.put(name, noise(size)));
    down.push_back(item(bucket_, name, "deep/er/" + std::to_string(size)));
    bytes += static_cast<int64_t>(size);
  }
  ASSERT_TRUE(copy_objects(setup(bucket_, *disk_), down));
  EXPECT_EQ(moved_, bytes);
  EXPECT_EQ(files(), down.size()) << "and nothing else";
  EXPECT_EQ(read(place_ / "disk/deep/er/12345"), noise(12'345));

  std::vector<CopyItem> up;
  for (const CopyItem& each : down) up.push_back(item(*disk_, each.to, "up/" + each.from.name));
  ASSERT_TRUE(copy_objects(setup(*disk_, bucket_), up));
  for (const CopyItem& each : up) {
    EXPECT_EQ(bucket_.get(each.to).value(), noise(static_cast<size_t>(each.from.size_bytes)));
  }
}

TEST_F(StoreCopyTest, BetweenBucketsLargeOnesGoThroughAFile) {
  MemoryStore other;
  ASSERT_TRUE(bucket_.put("large", noise(5'000)));
  ASSERT_TRUE(copy_objects(setup(bucket_, other), {item(bucket_, "large", "copy")}));
  EXPECT_EQ(other.get("copy").value(), noise(5'000));
}

TEST_F(StoreCopyTest, AsManyAreCopiedAtOnceAsThereIsRoomForTheirParts) {
  CopySetup copy = setup(bucket_, *disk_);
  copy.move = {.part_bytes = 1000, .in_flight_max = 4};
  std::atomic<int64_t> parts = 0;
  std::barrier<> two_at_once(2);  // or this never ends
  copy.copy_one = [&](const CopyItem& item) -> Status {
    EXPECT_LE(parts += 2, 4) << item.from.size_bytes;
    two_at_once.arrive_and_wait();
    parts -= 2;
    return {};
  };
  const auto sized = [](int64_t bytes) { return CopyItem{{"a", bytes}, "a"}; };
  EXPECT_TRUE(copy_objects(
      copy, {sized(2000), sized(1500), sized(9000), sized(4001), sized(1200), sized(2000)}));
  EXPECT_EQ(parts, 0);
}

TEST_F(StoreCopyTest, NothingIsReplacedUnlessItMayBe) {
  ASSERT_TRUE(bucket_.put("a", "new"));
  ASSERT_TRUE(disk_->put("a", "old"));
  MemoryStore other;
  ASSERT_TRUE(other.put("a", "old"));
  for (ObjectStore* to :
       {static_cast<ObjectStore*>(disk_.get()), static_cast<ObjectStore*>(&other)}) {
    CopySetup copy = setup(bucket_, *to);
    EXPECT_EQ(copy_objects(copy, {item(bucket_, "a", "a")}).error().code, Code::already_exists);
    EXPECT_EQ(to->get("a").value(), "old");
    copy.existing = Existing::replace;
    EXPECT_TRUE(copy_objects(copy, {item(bucket_, "a", "a")}));
    EXPECT_EQ(to->get("a").value(), "new");
  }
  EXPECT_EQ(files(), 1U);
}

TEST_F(StoreCopyTest, AFailureLeavesNoPartOfAFile) {
  FaultyStore faulty(bucket_);
  ASSERT_TRUE(bucket_.put("large", noise(50'000)));
  faulty.inject(20, Fault::fail_before);
  const Status copied = copy_objects(setup(faulty, *disk_), {item(bucket_, "large", "large")});
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Code::unavailable);
  EXPECT_EQ(files(), 0U);
}

TEST_F(StoreCopyTest, AnObjectThatShrankMeanwhileIsNoCopy) {
  ASSERT_TRUE(bucket_.put("a", noise(3'000)));
  const CopyItem before = item(bucket_, "a", "a");
  ASSERT_TRUE(bucket_.put("a", noise(2'500)));
  EXPECT_EQ(copy_objects(setup(bucket_, *disk_), {before}).error().code, Code::corrupt);
  EXPECT_EQ(files(), 0U);
}

TEST_F(StoreCopyTest, AnObjectThatGrewMeanwhileIsNoCopy) {
  for (const size_t before : {0U, 5U, 1'000U, 2'500U, 3'000U}) {
    ASSERT_TRUE(bucket_.put("a", noise(before)));
    const CopyItem listed = item(bucket_, "a", "a");
    ASSERT_TRUE(bucket_.put("a", noise(before + 1)));
    const Status copied = copy_objects(setup(bucket_, *disk_), {listed});
    ASSERT_FALSE(copied) << before;
    EXPECT_EQ(copied.error().code, Code::corrupt);
    EXPECT_THAT(copied.error().message, testing::HasSubstr("changed while it was copied"));
    EXPECT_EQ(files(), 0U);
  }
}

TEST_F(StoreCopyTest, AStopEndsItBetweenObjects) {
  std::stop_source stop;
  stop.request_stop();
  ASSERT_TRUE(bucket_.put("a", noise(3'000)));
  CopySetup copy = setup(bucket_, *disk_);
  copy.stop = stop.get_token();
  EXPECT_EQ(copy_objects(copy, {item(bucket_, "a", "a")}).error().code, Code::cancelled);
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace tern
