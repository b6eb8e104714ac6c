#include "cli/object_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "cli/test_run.h"
#include "storage/disk_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

constexpr int64_t kPart = 1 << 20;
constexpr int64_t kSize = 32 * kPart + 1234;

// What of this process is in memory.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

class ObjectBytesTest : public testing::Test {
 protected:
  ObjectBytesTest() : disk_(DiskStore::open(place_ / "disk", door_).value()) {
    Bytes text(kSize, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * 2654435761U) >> 13);
    EXPECT_TRUE(disk_->put("a", text));
    EXPECT_TRUE(disk_->put("same", text));
    text[text.size() - 5] ^= 1;
    EXPECT_TRUE(disk_->put("other", text));
    EXPECT_TRUE(disk_->put("shorter", BytesView(text).substr(1)));
  }

  std::unique_ptr<ObjectBytes> open(ObjectStore& store, const std::string& name) {
    return ObjectBytes::open(store, store.stat(name).value(), options_, {}).value();
  }

  TestRuns place_;
  RealFileDoor door_;
  std::unique_ptr<DiskStore> disk_;
  MappedFiles mapped_;
  MoveOptions options_{.part_bytes = kPart, .in_flight_max = 2, .mapped = &mapped_};
};

TEST_F(ObjectBytesTest, PartsThatAreLetGoLeaveTheMemoryAndComeBackAsTheyWere) {
  const auto bytes = open(*disk_, "a");
  const Bytes before(bytes->view());  // touches all of it
  const int64_t full = resident_bytes();
  mapped_.let_go(bytes->view());
  EXPECT_LT(resident_bytes(), full - kSize / 2);
  EXPECT_TRUE(bytes->view() == before);
  EXPECT_GT(resident_bytes(), full - kSize / 2);
}

TEST_F(ObjectBytesTest, BytesThatAreNoMappedFileStay) {
  const Bytes heap(8 * kPart, 'x');
  mapped_.let_go(heap);
  EXPECT_EQ(heap.find_first_not_of('x'), Bytes::npos);
  const auto bytes = open(*disk_, "a");
  mapped_.let_go(heap);
  mapped_.let_go(BytesView(bytes->view().data(), bytes->view().size() + (8 << 20)));  // and more
  EXPECT_EQ(heap.find_first_not_of('x'), Bytes::npos);
  MemoryStore bucket;
  ASSERT_TRUE(bucket.put("small", "in memory"));
  const auto small = open(bucket, "small");
  mapped_.let_go(small->view());
  EXPECT_EQ(small->view(), "in memory");
}

TEST_F(ObjectBytesTest, EqualBytesAreFoundWithoutHoldingThem) {
  const auto a = open(*disk_, "a");
  const int64_t empty = resident_bytes();
  EXPECT_TRUE(a->equals(*open(*disk_, "same")));
  EXPECT_LT(resident_bytes(), empty + kSize / 2);
  EXPECT_FALSE(a->equals(*open(*disk_, "other")));
  EXPECT_FALSE(a->equals(*open(*disk_, "shorter")));
}

}  // namespace
}  // namespace tern
