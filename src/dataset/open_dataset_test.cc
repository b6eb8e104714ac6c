#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "dataset/dataset.h"
#include "dataset/options.h"
#include "dataset/test_folder.h"
#include "dataset/test_index.h"
#include "dataset/test_read.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::HasSubstr;

TEST(OpenDataset, ChoosesTheReaderByFormat) {
  const TestFolder folder;
  folder.write("test_batch.bin", Bytes(3073, '\1'));
  folder.write("t10k-images-idx3-ubyte", idx_bytes(0x803, {1, 2, 2}, "abcd"));
  folder.write("t10k-labels-idx1-ubyte", idx_bytes(0x801, {1}, "\5"));
  const auto idx = open_dataset({.format = "idx", .path = folder.path()}, Split::test);
  const auto cifar = open_dataset({.format = "cifar10", .path = folder.path()}, Split::test);
  ASSERT_TRUE(idx && cifar);
  EXPECT_EQ(idx.value()->shape(), (ImageShape{1, 2, 2}));
  EXPECT_EQ(cifar.value()->shape(), (ImageShape{3, 32, 32}));
}

TEST(OpenDataset, UnknownFormatIsRefusedWithTheKnownOnes) {
  const auto opened = open_dataset({.format = "jpeg"}, Split::train);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::invalid);
  EXPECT_THAT(opened.error().message, HasSubstr("'jpeg'"));
  EXPECT_THAT(opened.error().message, HasSubstr("idx or cifar10"));
}

TEST(OpenDataset, ErrorsSayWhichSplit) {
  const TestFolder folder;
  const auto opened = open_dataset({.path = folder.path()}, Split::test);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("open the test data: "));
}

TEST(OpenDataset, ImportedFolderIsRecognisedWhateverTheFormat) {
  const TestFolder folder;
  make_test_set({.test_samples = 20}).write(folder);
  for (const char* format : {"idx", "cifar10"}) {
    const auto opened = open_dataset({.format = format, .path = folder.path()}, Split::test);
    ASSERT_TRUE(opened) << opened.error().to_string();
    EXPECT_EQ(opened.value()->size(), 20);
    EXPECT_EQ(opened.value()->name(), "imported:" + folder.path() + "/test");
  }
}

TEST(OpenDataset, OtherNumberOfClassesIsRefusedWithBoth) {
  const TestFolder folder;
  make_test_set().write(folder);
  const auto opened = open_dataset({.path = folder.path(), .classes = 200}, Split::train);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::invalid);
  EXPECT_THAT(opened.error().message, HasSubstr("has 10 classes"));
  EXPECT_THAT(opened.error().message, HasSubstr("data.classes is 200"));
  EXPECT_THAT(opened.error().message, HasSubstr("data.classes=10"));
}

TEST(OpenDataset, ImportThatIsNotFinishedIsSaidToBe) {
  for (const char* left_behind : {"import.json", "shards/00000.shard"}) {
    const TestFolder folder;
    folder.write(left_behind, "x");
    const auto opened = open_dataset({.path = folder.path()}, Split::train);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::failed_precondition);
    EXPECT_THAT(opened.error().message, HasSubstr("the import into " + folder.path() +
                                                  " is not finished; run `tern data "
                                                  "import` again"));
  }
}

TEST(OpenDataset, FolderOfSomethingElseMentionsTheImport) {
  const TestFolder folder;
  folder.write("cat/1.jpg", "x");
  const auto opened = open_dataset({.path = folder.path()}, Split::train);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::not_found);
  EXPECT_THAT(opened.error().message, HasSubstr("train-images-idx3-ubyte"));
  EXPECT_THAT(opened.error().message, HasSubstr("tern data import " + folder.path() + " DST"));
}

TEST(OpenDataset, DamagedIndexIsNotTakenForAnotherFormat) {
  const TestFolder folder;
  folder.write(kIndexFile, "TERNSET1 and then nothing");
  const auto opened = open_dataset({.path = folder.path()}, Split::train);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::corrupt);
  EXPECT_THAT(opened.error().message, HasSubstr(kIndexFile));
}

TEST(OpenDataset, AnAddressIsOpenedByWhoeverKnowsHow) {
  const auto bucket = std::make_shared<MemoryStore>();
  make_test_set({.test_samples = 20}).put(*bucket, "");
  DataOptions options{.path = "s3://bucket/set"};
  EXPECT_EQ(open_dataset(options, Split::test).error().code, Code::invalid) << "nobody knows how";
  options.open_store = [&](const std::string& address) -> Result<std::shared_ptr<ObjectStore>> {
    EXPECT_EQ(address, "s3://bucket/set");
    return std::shared_ptr<ObjectStore>(bucket);
  };
  const auto opened = open_dataset(options, Split::test);
  ASSERT_TRUE(opened) << opened.error().to_string();
  EXPECT_EQ((*opened)->size(), 20);
  EXPECT_EQ((*opened)->name(), "imported:s3://bucket/set/test");
  EXPECT_THAT((*opened)->where(0), HasSubstr("s3://bucket/set/shards/"));
  Bytes buffer;
  EXPECT_TRUE((*opened)->fetch(0, buffer));

  ASSERT_TRUE(bucket->remove(kIndexFile));
  const auto none = open_dataset(options, Split::test);
  EXPECT_EQ(none.error().code, Code::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("tern store cp --recursive"));
}

TEST(OpenDataset, AFileAddressIsItsFolder) {
  const TestFolder folder;
  make_test_set().write(folder);
  EXPECT_TRUE(open_dataset({.path = "file://" + folder.path()}, Split::train));
}

TEST(OpenDataset, DebiansFashionMnistHasTheKnownCountsAndBalancedClasses) {
  const DataOptions options;
  if (!std::filesystem::exists(options.path)) {
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  }
  for (const Split split : {Split::train, Split::test}) {
    const auto opened = open_dataset(options, split);
    ASSERT_TRUE(opened) << opened.error().to_string();
    const Dataset& dataset = *opened.value();
    ASSERT_EQ(dataset.size(), split == Split::train ? 60'000 : 10'000);
    EXPECT_EQ(dataset.shape(), (ImageShape{1, 28, 28}));
    EXPECT_EQ(dataset.classes(), 10);
    std::vector<int64_t> counts(10);
    for (int64_t i = 0; i < dataset.size(); ++i) ++counts[static_cast<size_t>(dataset.label(i))];
    EXPECT_EQ(counts, std::vector<int64_t>(10, dataset.size() / 10));
    // A pullover is no black square: the pixels are really there.
    std::vector<uint8_t> image(784);
    ASSERT_TRUE(read_whole(dataset, dataset.size() - 1, image));
    EXPECT_NE(image, std::vector<uint8_t>(784, 0));
  }
}

}  // namespace
}  // namespace tern
