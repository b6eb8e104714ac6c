#include "dataset/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/clock.h"
#include "dataset/test_index.h"
#include "dataset/test_read.h"
#include "dataset/test_staging.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/prefix_store.h"
#include "storage/retry_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Dataset> open(const TestFolder& folder, Split split = Split::train) {
  return std::move(open_indexed(folder.path(), split)).value();
}

Error open_error(const TestFolder& folder, Split split = Split::train) {
  const auto opened = open_indexed(folder.path(), split);
  return opened ? Error{Code::internal, "it opened"} : opened.error();
}

Error fetch_error(const Dataset& dataset, int64_t sample) {
  Bytes buffer;
  const Result<BytesView> stored = dataset.fetch(sample, buffer);
  return stored ? Error{Code::internal, "it was read"} : stored.error();
}

// How many samples of the split are not as `set` has them.
int64_t count_wrong(const Dataset& dataset, const TestSet& set, int64_t first = 0) {
  int64_t wrong = 0;
  Bytes buffer;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Result<BytesView> stored = dataset.fetch(i, buffer);
    if (!stored || *stored != set.stored(first + i)) ++wrong;
  }
  return wrong;
}

void flip_bit(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 0x08));
}

TEST(IndexedDataset, GivesWhatTheIndexSays) {
  const TestFolder folder;
  const TestSet set = make_test_set({.test_samples = 15});
  set.write(folder);
  const std::unique_ptr<Dataset> train = open(folder);
  const std::unique_ptr<Dataset> test = open(folder, Split::test);
  EXPECT_EQ(train->size(), 45);
  EXPECT_EQ(test->size(), 15);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->shape(), (ImageShape{1, 4, 6}));
  EXPECT_EQ(test->info(0), (ImageInfo{.format = ImageFormat::raw, .size = {6, 4}, .channels = 1}));
  EXPECT_EQ(train->label(23), 3);
  EXPECT_EQ(test->label(0), 5);
  EXPECT_EQ(count_wrong(*train, set), 0);
  EXPECT_EQ(count_wrong(*test, set, 45), 0);
  EXPECT_NE(train->id(), test->id());
  EXPECT_EQ(train->id(), set.index()->id(Split::train));
  EXPECT_EQ(test->where(3), "sample 's48' in " + folder.path() + "/shards/2.shard at offset 198");
  std::vector<uint8_t> image(24);
  ASSERT_TRUE(read_whole(*test, 3, image));
  EXPECT_EQ(Bytes(image.begin(), image.end()), set.stored(48));
}

TEST(IndexedDataset, FetchKeepsTheBuffersMemory) {
  const TestFolder folder;
  make_test_set().write(folder);
  const std::unique_ptr<Dataset> dataset = open(folder);
  Bytes buffer;
  ASSERT_TRUE(dataset->fetch(0, buffer));
  const char* const room = buffer.data();
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const Result<BytesView> stored = dataset->fetch(i, buffer);
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->data(), room);
  }
}

TEST(IndexedDataset, ManyThreadsReadAtOnce) {
  const TestFolder folder;
  const TestSet set = make_test_set({.files = 10});
  set.write(folder);
  const std::unique_ptr<Dataset> dataset = open(folder);
  std::atomic<int64_t> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) threads.emplace_back([&] { wrong += count_wrong(*dataset, set); });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(IndexedDataset, FlippedBitNamesTheSampleItsFileAndOffset) {
  const TestFolder folder;
  const TestSet set = make_test_set();
  set.write(folder);
  flip_bit(folder.path() + "/shards/1.shard", 6 + 24 * 3 + 10);
  const std::unique_ptr<Dataset> dataset = open(folder);
  EXPECT_EQ(count_wrong(*dataset, set), 1);
  const Error error = fetch_error(*dataset, 23);
  EXPECT_EQ(error.code, Code::corrupt);
  EXPECT_EQ(error.message, "sample 's23' in " + folder.path() +
                               "/shards/1.shard at offset 78: the bytes differ from the index's "
                               "checksum; run `tern data verify " +
                               folder.path() + "`");
}

TEST(IndexedDataset, EveryBitOfASampleIsChecked) {
  const TestFolder folder;
  make_test_set({.files = 1, .samples_per_file = 1}).write(folder);
  const std::unique_ptr<Dataset> dataset = open(folder);
  for (int64_t at = 0; at < 6 + 24 + 6; ++at) {
    flip_bit(folder.path() + "/shards/0.shard", at);
    const bool is_in_sample = at >= 6 && at < 30;
    EXPECT_EQ(fetch_error(*dataset, 0).code, is_in_sample ? Code::corrupt : Code::internal) << at;
    flip_bit(folder.path() + "/shards/0.shard", at);
  }
}

TEST(IndexedDataset, TruncatedShardNamesTheSamplesThatAreGone) {
  const TestFolder folder;
  const TestSet set = make_test_set();
  set.write(folder);
  ASSERT_EQ(::truncate((folder.path() + "/shards/2.shard").c_str(), 6 + 24 * 10 + 3), 0);
  const std::unique_ptr<Dataset> dataset = open(folder);
  EXPECT_EQ(count_wrong(*dataset, set), 10);
  const Error error = fetch_error(*dataset, 50);
  EXPECT_EQ(error.code, Code::corrupt);
  EXPECT_THAT(error.message, HasSubstr("sample 's50'"));
  EXPECT_THAT(error.message, HasSubstr("shards/2.shard"));
  EXPECT_THAT(error.message, HasSubstr("offset 246"));
}

TEST(IndexedDataset, FileThatWasReplacedIsNotBelieved) {
  const TestFolder folder;
  const TestSet set = make_test_set();
  set.write(folder);
  folder.write("shards/0.shard", set.files.at("shards/1.shard"));
  const std::unique_ptr<Dataset> dataset = open(folder);
  EXPECT_EQ(count_wrong(*dataset, set), 20);
  EXPECT_EQ(fetch_error(*dataset, 0).code, Code::corrupt);
}

TEST(IndexedDataset, FileThatIsGoneIsNamedWithTheSample) {
  const TestFolder folder;
  make_test_set().write(folder);
  folder.remove("shards/2.shard");
  const std::unique_ptr<Dataset> dataset = open(folder);
  // Not the sample's fault, so no policy passes over it.
  EXPECT_EQ(fetch_error(*dataset, 40).code, Code::unavailable);
  EXPECT_THAT(fetch_error(*dataset, 40).message, HasSubstr("sample 's40'"));
}

TEST(IndexedDataset, ShapeIsThatOfTheSplit) {
  const TestFolder folder;
  TestSet set = make_test_set({.test_samples = 20});
  for (size_t i = 40; i < 60; ++i)
    std::swap(set.content.entries[i].width, set.content.entries[i].height);
  set.write(folder);
  EXPECT_EQ(open(folder)->shape(), (ImageShape{1, 4, 6}));
  EXPECT_EQ(open(folder, Split::test)->shape(), (ImageShape{1, 6, 4}));
  std::swap(set.content.entries[59].width, set.content.entries[59].height);
  set.write(folder);
  EXPECT_EQ(open(folder, Split::test)->shape(), (ImageShape{1, 0, 0}));
}

TEST(IndexedDataset, GreyAndColourInOneSplitAreRefused) {
  const TestFolder folder;
  TestSet set = make_test_set({.test_samples = 20});
  set.content.entries[30].channels = 3;
  set.content.entries[30].height = 2;
  set.content.entries[30].width = 4;
  set.write(folder);
  EXPECT_EQ(open_error(folder).code, Code::invalid);
  EXPECT_THAT(open_error(folder).message, HasSubstr("channels"));
  EXPECT_TRUE(open_indexed(folder.path(), Split::test));
}

TEST(IndexedDataset, ShardsAreTheRunsOfOneFile) {
  const TestFolder folder;
  make_test_set({.test_samples = 25}).write(folder);
  EXPECT_THAT(open(folder)->shards(), ElementsAre(20, 15));
  EXPECT_THAT(open(folder, Split::test)->shards(), ElementsAre(25));  // 5 and 20: short runs
}

TEST(IndexedDataset, ShardsOfATreeOfSingleFilesAreBlocks) {
  const TestFolder folder;
  make_test_set({.files = 2300, .samples_per_file = 1, .width = 2, .height = 1}).write(folder);
  EXPECT_THAT(open(folder)->shards(), ElementsAre(1000, 1000, 300));
  const TestFolder exact;
  make_test_set({.files = 500, .samples_per_file = 4, .width = 2, .height = 1}).write(exact);
  EXPECT_THAT(open(exact)->shards(), ElementsAre(1000, 1000));
}

TEST(IndexedDataset, SplitWithoutSamplesIsNotFound) {
  const TestFolder folder;
  make_test_set().write(folder);
  EXPECT_EQ(open_error(folder, Split::test).code, Code::not_found);
  EXPECT_THAT(open_error(folder, Split::test).message, HasSubstr("no test samples"));
}

TEST(IndexedDataset, IndexedInPlaceIsReadWhereItLies) {
  const TestFolder folder;
  auto data = std::make_unique<TestFolder>();
  TestSet set = make_test_set();
  set.content.about.root = data->path();
  set.write_files(*data);
  folder.write(kIndexFile, set.index_bytes());
  EXPECT_TRUE(is_imported(folder.path()));
  EXPECT_FALSE(is_imported(data->path()));
  const std::unique_ptr<Dataset> dataset = open(folder);
  EXPECT_EQ(count_wrong(*dataset, set), 0);
  const std::string root = data->path();
  data.reset();
  const Error error = open_error(folder);
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_THAT(error.message, HasSubstr(folder.path()));
  EXPECT_THAT(error.message, HasSubstr("was indexed in place at " + root));
}

TEST(IndexedDataset, StagedCopyThatTurnsBadIsReplacedUnderTheReader) {
  const TestFolder folder;
  const TestFolder stage;
  const TestSet set = make_test_set();
  set.write_files(folder);
  const std::shared_ptr<const DatasetIndex> index = set.index();
  StageEvents events;
  StageSetup setup{.source = open_folder_files(folder.path(), *index),
                   .index = index.get(),
                   .folder = stage.path()};
  events.listen(setup);
  std::shared_ptr<const SampleFiles> files = std::move(stage_files(std::move(setup))).value();
  const IndexedDataset dataset(index, files, Split::train, "x");
  ASSERT_TRUE(events.wait_staged(3));
  EXPECT_THAT(dataset.where(25), HasSubstr(stage.path()));
  flip_bit(stage.path() + "/" + index->id().substr(0, 16) + "/shards/1.shard", 6 + 24 * 5);
  EXPECT_EQ(count_wrong(dataset, set), 0);
  ASSERT_EQ(events.failures().size(), 1u);
  EXPECT_EQ(events.failures()[0].second.code, Code::corrupt);
  ASSERT_TRUE(events.wait_staged(4));
  EXPECT_EQ(count_wrong(dataset, set), 0);
  // It is the new copy that is read: the source is no good for this sample any more.
  flip_bit(folder.path() + "/shards/1.shard", 6 + 24 * 5);
  Bytes buffer;
  EXPECT_TRUE(dataset.fetch(25, buffer));
  // If the source is bad as well, that is what is said.
  flip_bit(stage.path() + "/" + index->id().substr(0, 16) + "/shards/2.shard", 6 + 24 * 5);
  flip_bit(folder.path() + "/shards/2.shard", 6 + 24 * 5 + 1);
  EXPECT_THAT(fetch_error(dataset, 45).message, HasSubstr(folder.path() + "/shards/2.shard at"));
}

TEST(IndexedDataset, OpenedWithAStageItTellsWhatFails) {
  const TestFolder folder;
  const TestFolder stage;
  const TestSet set = make_test_set({.test_samples = 20});
  set.write(folder);
  flip_bit(folder.path() + "/shards/1.shard", 100);
  Gate told;
  std::string message;
  const auto dataset =
      open_indexed(folder.path(), Split::train, stage.path(), [&](const Error& error) {
        message = error.message;
        told.open();
      });
  ASSERT_TRUE(dataset);
  EXPECT_EQ(count_wrong(*dataset.value(), set), 1);
  ASSERT_TRUE(told.wait());
  EXPECT_THAT(message, HasSubstr("shards/1.shard"));
}

// An imported data set in a bucket that fails now and then.
class StoredDatasetTest : public testing::Test {
 protected:
  StoredDatasetTest() { set_.put(memory_, "sets/small/"); }

  Result<std::unique_ptr<Dataset>> open(const std::string& stage = "") {
    return open_indexed(std::make_shared<PrefixStore>(retry_, "sets/small"), "sets/small",
                        Split::train, stage);
  }

  const TestSet set_ = make_test_set();
  MemoryStore memory_;
  FaultyStore faulty_{memory_};
  SimClock clock_;
  RetryStore retry_{faulty_, {}, clock_, /*seed=*/1};
};

TEST_F(StoredDatasetTest, TransientFaultsAreSurvived) {
  for (int64_t request = 1; request < 80; request += 3) faulty_.inject(request, Fault::fail_before);
  const auto dataset = open();
  ASSERT_TRUE(dataset) << dataset.error().to_string();
  EXPECT_EQ(count_wrong(*dataset.value(), set_), 0);
  EXPECT_EQ(dataset.value()->name(), "imported:sets/small/train");
}

TEST_F(StoredDatasetTest, ManyAreFetchedAtOnceAndEachIsChecked) {
  const auto dataset = open();
  ASSERT_TRUE(dataset);
  Bytes damaged = memory_.get("sets/small/shards/1.shard").value();
  damaged[damaged.size() / 2] ^= 1;
  ASSERT_TRUE(memory_.put("sets/small/shards/1.shard", damaged));
  ASSERT_TRUE(memory_.remove("sets/small/shards/2.shard"));
  std::vector<int64_t> samples(60);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int64_t>(59 - i);
  const auto all = dataset.value()->fetch_many(samples);
  ASSERT_EQ(all.size(), samples.size());
  int64_t corrupt = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] >= 40) {
      EXPECT_EQ(all[i].error().code, Code::not_found);
    } else if (all[i]) {
      EXPECT_EQ(*all[i], set_.stored(samples[i]));
    } else {
      EXPECT_EQ(all[i].error().code, Code::corrupt);
      ++corrupt;
    }
  }
  EXPECT_EQ(corrupt, 1);
}

TEST_F(StoredDatasetTest, LostObjectsAreNamed) {
  const auto dataset = open();
  ASSERT_TRUE(memory_.remove("sets/small/shards/2.shard"));
  EXPECT_EQ(fetch_error(*dataset.value(), 40).code, Code::unavailable);
  EXPECT_THAT(fetch_error(*dataset.value(), 40).message, HasSubstr("sets/small/shards/2.shard"));
  EXPECT_THAT(fetch_error(*dataset.value(), 40).message, HasSubstr("sample 's40'"));
  ASSERT_TRUE(memory_.remove("sets/small/dataset.tern"));
  EXPECT_EQ(open().error().code, Code::not_found);
  EXPECT_THAT(open().error().message, HasSubstr("sets/small/dataset.tern"));
}

// Whose keys end while it is read.
class RefusingStore final : public ObjectStore {
 public:
  explicit RefusingStore(ObjectStore& inner) : inner_(inner) {}
  void refuse() { refuses_ = true; }
  Result<Bytes> get(const std::string& name) override { return inner_.get(name); }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    if (refuses_) return fail(Code::permission_denied, "ExpiredToken: get new keys");
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
  std::optional<std::filesystem::path> local_path(const std::string&) const override {
    return std::nullopt;
  }

 private:
  ObjectStore& inner_;
  bool refuses_ = false;
};

// No policy for bad samples passes over a failed_precondition.
TEST_F(StoredDatasetTest, CredentialsThatAreRefusedAreNoSamplesFault) {
  RefusingStore refusing(memory_);
  const auto dataset = open_indexed(std::make_shared<PrefixStore>(refusing, "sets/small"),
                                    "sets/small", Split::train, "");
  ASSERT_TRUE(dataset) << dataset.error().to_string();
  refusing.refuse();
  const Error error = fetch_error(**dataset, 40);
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr("ExpiredToken: get new keys"));
  EXPECT_THAT(error.message, HasSubstr("sets/small/shards/2.shard"));
}

TEST_F(StoredDatasetTest, DamagedObjectsAreCorrupt) {
  Bytes shard = set_.files.at("shards/0.shard");
  shard[6] ^= 1;
  ASSERT_TRUE(memory_.put("sets/small/shards/0.shard", shard));
  const auto dataset = open();
  EXPECT_EQ(fetch_error(*dataset.value(), 0).code, Code::corrupt);
  EXPECT_THAT(fetch_error(*dataset.value(), 0).message,
              HasSubstr("sample 's0' in sets/small/shards/0.shard at offset 6"));
  Bytes index = set_.index_bytes();
  index[300] ^= 1;
  ASSERT_TRUE(memory_.put("sets/small/dataset.tern", index));
  EXPECT_EQ(open().error().code, Code::corrupt);
}

TEST_F(StoredDatasetTest, IsStagedToALocalFolder) {
  const TestFolder stage;
  const auto dataset = open(stage.path());
  ASSERT_TRUE(dataset);
  // Each sample is right wherever it comes from, and in the end none comes from the store.
  int64_t before = 0;
  do {
    before = faulty_.requests();
    ASSERT_EQ(count_wrong(*dataset.value(), set_), 0);
  } while (faulty_.requests() != before);
}

TEST_F(StoredDatasetTest, IndexedInPlaceIsNoDataSetOfAStore) {
  TestSet set = make_test_set();
  set.content.about.root = "/data/images";
  set.put(memory_, "sets/small/");
  EXPECT_EQ(open().error().code, Code::invalid);
  EXPECT_THAT(open().error().message, HasSubstr("--pack"));
}

}  // namespace
}  // namespace tern
