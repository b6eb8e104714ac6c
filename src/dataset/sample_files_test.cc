#include "dataset/sample_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "dataset/test_index.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/prefix_store.h"
#include "storage/retry_store.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr char kSecond[] = "shards/1.shard";

Status read_sample(const SampleFiles& files, const DatasetIndex& index, int64_t sample,
                   Bytes& buffer) {
  const IndexEntry& entry = index.entry(sample);
  return files.read(entry.file, static_cast<int64_t>(entry.offset), entry.length, buffer);
}

TEST(FolderFiles, GivesEverySample) {
  const TestFolder folder;
  const TestSet set = make_test_set();
  set.write_files(folder);
  const std::unique_ptr<DatasetIndex> index = set.index();
  const std::unique_ptr<SampleFiles> files = open_folder_files(folder.path(), *index, 1);
  Bytes buffer;
  for (int64_t i = 0; i < index->samples(); ++i) {
    ASSERT_TRUE(read_sample(*files, *index, i, buffer));
    EXPECT_EQ(buffer, set.stored(i));
  }
  EXPECT_EQ(files->where(1), folder.path() + "/" + kSecond);
  EXPECT_FALSE(files->distrust(1));
}

TEST(FolderFiles, ManyThreadsReadThroughTwoOpenFiles) {
  const TestFolder folder;
  const TestSet set = make_test_set({.files = 6});
  set.write_files(folder);
  const std::unique_ptr<DatasetIndex> index = set.index();
  const std::unique_ptr<SampleFiles> files = open_folder_files(folder.path(), *index, 2);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int64_t number = 0; number < 8; ++number) {
      threads.emplace_back([&, number] {
        Bytes buffer;
        for (int64_t i = 0; i < 1000; ++i) {
          const int64_t sample = (i * 37 + number * 11) % index->samples();
          const bool is_right = read_sample(*files, *index, sample, buffer).has_value() &&
                                buffer == set.stored(sample);
          if (!is_right) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(FolderFiles, TruncatedFileIsNamedWithTheOffset) {
  const TestFolder folder;
  const TestSet set = make_test_set();
  set.write_files(folder);
  ASSERT_EQ(::truncate((folder.path() + "/" + kSecond).c_str(), 100), 0);
  const std::unique_ptr<DatasetIndex> index = set.index();
  const std::unique_ptr<SampleFiles> files = open_folder_files(folder.path(), *index);
  Bytes buffer;
  EXPECT_TRUE(read_sample(*files, *index, 20, buffer));
  const Status read = read_sample(*files, *index, 39, buffer);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::corrupt);
  EXPECT_THAT(read.error().message, HasSubstr(kSecond));
  EXPECT_THAT(read.error().message, HasSubstr("at offset 462"));
}

// The index, its samples in `memory`, and files that read them through faults and retries.
class StoreFilesTest : public testing::Test {
 protected:
  StoreFilesTest() { set_.put(memory_, "sets/small/"); }

  Status read(int64_t sample) { return read_sample(*files_, *index_, sample, buffer_); }

  const TestSet set_ = make_test_set();
  const std::unique_ptr<DatasetIndex> index_ = set_.index();
  MemoryStore memory_;
  FaultyStore faulty_{memory_};
  SimClock clock_;
  RetryStore retry_{faulty_, {}, clock_, /*seed=*/1};
  const std::unique_ptr<SampleFiles> files_ =
      open_store_files(std::make_shared<PrefixStore>(retry_, "sets/small"), "sets/small", *index_);
  Bytes buffer_;
};

TEST_F(StoreFilesTest, TransientFaultsAreSurvived) {
  for (int64_t request = 1; request < 60; request += 2) {
    faulty_.inject(request, request % 4 == 1 ? Fault::fail_before : Fault::fail_after);
  }
  for (int64_t i = 0; i < index_->samples(); ++i) {
    ASSERT_TRUE(read(i));
    EXPECT_EQ(buffer_, set_.stored(i));
  }
  EXPECT_GT(faulty_.requests(), index_->samples());
}

TEST_F(StoreFilesTest, OutageLongerThanTheRetriesIsUnavailableAndNamed) {
  for (int64_t request = 1; request <= 100; ++request) faulty_.inject(request, Fault::fail_before);
  const Status status = read(25);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::unavailable);
  EXPECT_THAT(status.error().message, HasSubstr("sets/small/shards/1.shard"));
}

TEST_F(StoreFilesTest, LostObjectIsNamedWithTheOffset) {
  ASSERT_TRUE(memory_.remove("sets/small/shards/1.shard"));
  const Status status = read(20);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::not_found);
  EXPECT_THAT(status.error().message, HasSubstr("sets/small/shards/1.shard"));
  EXPECT_THAT(status.error().message, HasSubstr("offset 6"));
  EXPECT_TRUE(read(0));
}

TEST_F(StoreFilesTest, ShortObjectIsCorruptWhereverItEnds) {
  for (const size_t size : {size_t{0}, size_t{6}, size_t{100}, size_t{485}}) {
    const Bytes cut = set_.files.at(kSecond).substr(0, size);
    ASSERT_TRUE(memory_.put("sets/small/shards/1.shard", cut));
    const Status status = read(39);  // bytes 462 to 486
    ASSERT_FALSE(status) << size;
    EXPECT_EQ(status.error().code, Code::corrupt) << size;
    EXPECT_THAT(status.error().message, HasSubstr("shards/1.shard"));
  }
}

}  // namespace
}  // namespace tern
