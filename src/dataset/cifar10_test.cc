#include "dataset/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "dataset/test_folder.h"
#include "dataset/test_read.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr size_t kRecord = 3073;

// Five training files of two records each, one test file of three. The label is the file's number.
class Cifar10Test : public testing::Test {
 protected:
  Cifar10Test() { write_files(""); }

  static Bytes records(size_t count, char label) {
    Bytes bytes;
    for (size_t i = 0; i < count; ++i) {
      bytes.push_back(label);
      bytes.append(kRecord - 1, static_cast<char>(10 * label + static_cast<char>(i)));
    }
    return bytes;
  }

  static std::string file(int number) { return "data_batch_" + std::to_string(number) + ".bin"; }

  void write_files(const std::string& prefix) const {
    for (int number = 1; number <= 5; ++number) {
      folder_.write(prefix + file(number), records(2, static_cast<char>(number)));
    }
    folder_.write(prefix + "test_batch.bin", records(3, 9));
  }

  Result<std::unique_ptr<Dataset>> open(Split split = Split::train) const {
    return open_cifar10({.format = "cifar10", .path = folder_.path()}, split);
  }

  Error error() const {
    const Result<std::unique_ptr<Dataset>> opened = open();
    return opened ? Error{Code::internal, "it opened"} : opened.error();
  }

  const TestFolder folder_;
};

TEST_F(Cifar10Test, ReadsTheFiveFilesInOrder) {
  const std::unique_ptr<Dataset> dataset = std::move(open().value());
  ASSERT_EQ(dataset->size(), 10);
  EXPECT_EQ(dataset->shape(), (ImageShape{3, 32, 32}));
  std::vector<uint8_t> image(3072);
  for (int64_t sample = 0; sample < 10; ++sample) {
    EXPECT_EQ(dataset->label(sample), sample / 2 + 1);
    ASSERT_TRUE(read_whole(*dataset, sample, image));
    const auto pixel = static_cast<uint8_t>(10 * (sample / 2 + 1) + sample % 2);
    EXPECT_EQ(image, std::vector<uint8_t>(3072, pixel));
  }
}

TEST_F(Cifar10Test, TestSplitIsOneFile) {
  const std::unique_ptr<Dataset> dataset = std::move(open(Split::test).value());
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->label(0), 9);
}

TEST_F(Cifar10Test, FolderOfTheArchiveIsFound) {
  const std::string id = open().value()->id();
  for (int number = 1; number <= 5; ++number) folder_.remove(file(number));
  EXPECT_EQ(error().code, Code::not_found);
  EXPECT_THAT(error().message, HasSubstr("data_batch_1.bin"));
  write_files("cifar-10-batches-bin/");
  const std::unique_ptr<Dataset> dataset = std::move(open().value());
  EXPECT_EQ(dataset->id(), id);
  EXPECT_EQ(dataset->name(), "cifar10:" + folder_.path() + "/cifar-10-batches-bin/train");
}

TEST_F(Cifar10Test, OneMissingFileIsNamed) {
  folder_.remove(file(4));
  EXPECT_EQ(error().code, Code::not_found);
  EXPECT_THAT(error().message, HasSubstr("data_batch_4.bin"));
}

TEST_F(Cifar10Test, SizesThatAreNotWholeRecordsAreCorrupt) {
  const Bytes whole = records(2, 3);
  for (const size_t size : {size_t{0}, size_t{1}, kRecord - 1, kRecord + 1, 2 * kRecord - 1}) {
    folder_.write(file(3), BytesView(whole).substr(0, size));
    EXPECT_EQ(error().code, Code::corrupt) << size;
    EXPECT_THAT(error().message, HasSubstr("data_batch_3.bin")) << size;
  }
}

TEST_F(Cifar10Test, LabelOutOfRangeNamesRecordAndFile) {
  Bytes bytes = records(2, 2);
  bytes[kRecord] = 10;
  folder_.write(file(2), bytes);
  EXPECT_EQ(error().code, Code::invalid);
  EXPECT_THAT(error().message, HasSubstr("record 1 has the label 10"));
  EXPECT_THAT(error().message, HasSubstr("data_batch_2.bin"));
}

TEST(Cifar10RealData, HasTheKnownCountsAndBalancedClasses) {
  const char* const path = std::getenv("TERN_TEST_CIFAR10");
  if (path == nullptr) GTEST_SKIP() << "TERN_TEST_CIFAR10 does not name a folder with CIFAR-10";
  for (const Split split : {Split::train, Split::test}) {
    const auto opened = open_cifar10({.format = "cifar10", .path = path}, split);
    ASSERT_TRUE(opened) << opened.error().to_string();
    const Dataset& dataset = *opened.value();
    ASSERT_EQ(dataset.size(), split == Split::train ? 50'000 : 10'000);
    std::vector<int64_t> counts(10);
    for (int64_t i = 0; i < dataset.size(); ++i) ++counts[static_cast<size_t>(dataset.label(i))];
    EXPECT_EQ(counts, std::vector<int64_t>(10, dataset.size() / 10));
  }
}

}  // namespace
}  // namespace tern
