#include "dataset/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/test_folder.h"
#include "dataset/test_read.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr char kImages[] = "train-images-idx3-ubyte";
constexpr char kLabels[] = "train-labels-idx1-ubyte";
constexpr uint32_t kCount = 6;

// Six grey images of 3 rows and 4 columns with the labels 0 to 5; tests then damage one file.
class IdxTest : public testing::Test {
 protected:
  IdxTest() {
    folder_.write(kImages, images_);
    folder_.write(kLabels, labels_);
  }

  Result<std::unique_ptr<Dataset>> open(Split split = Split::train) const {
    return open_idx({.path = folder_.path()}, split);
  }

  Error error() const {
    const Result<std::unique_ptr<Dataset>> opened = open();
    return opened ? Error{Code::internal, "it opened"} : opened.error();
  }

  const TestFolder folder_;
  const Bytes pixels_ = varied_bytes(kCount * 12);
  const Bytes images_ = idx_bytes(0x803, {kCount, 3, 4}, pixels_);
  const Bytes labels_ = idx_bytes(0x801, {kCount}, BytesView("\0\1\2\3\4\5", kCount));
};

Bytes read_all(const Dataset& dataset) {
  Bytes pixels;
  std::vector<uint8_t> image(static_cast<size_t>(dataset.shape().bytes()));
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    EXPECT_TRUE(read_whole(dataset, sample, image));
    pixels.append(image.begin(), image.end());
  }
  return pixels;
}

TEST_F(IdxTest, ReadsImagesAndLabels) {
  const std::unique_ptr<Dataset> dataset = std::move(open().value());
  EXPECT_EQ(dataset->size(), kCount);
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_EQ(dataset->shape(), (ImageShape{1, 3, 4}));
  EXPECT_EQ(dataset->name(), "idx:" + folder_.path() + "/train");
  EXPECT_EQ(read_all(*dataset), pixels_);
  for (int64_t sample = 0; sample < kCount; ++sample) EXPECT_EQ(dataset->label(sample), sample);
}

TEST_F(IdxTest, GzipFilesHaveTheSameId) {
  const std::string plain_id = open().value()->id();
  folder_.remove(kImages);
  folder_.remove(kLabels);
  folder_.write(std::string(kImages) + ".gz", gzip_bytes(images_));
  folder_.write(std::string(kLabels) + ".gz", gzip_bytes(labels_));
  EXPECT_EQ(open().value()->id(), plain_id);
}

TEST_F(IdxTest, TestSplitHasItsOwnFilesAndId) {
  EXPECT_EQ(open(Split::test).error().code, Code::not_found);
  folder_.write("t10k-images-idx3-ubyte", images_);
  folder_.write("t10k-labels-idx1-ubyte", labels_);
  const std::unique_ptr<Dataset> dataset = std::move(open(Split::test).value());
  EXPECT_EQ(dataset->name(), "idx:" + folder_.path() + "/test");
  EXPECT_NE(dataset->id(), open().value()->id());
}

TEST_F(IdxTest, ColourImagesHaveChannels) {
  folder_.write(kImages, idx_bytes(0x804, {kCount, 3, 2, 2}, pixels_));
  const std::unique_ptr<Dataset> dataset = std::move(open().value());
  EXPECT_EQ(dataset->shape(), (ImageShape{3, 2, 2}));
  EXPECT_EQ(read_all(*dataset), pixels_);
}

TEST_F(IdxTest, MissingFilesAreNamed) {
  folder_.remove(kLabels);
  EXPECT_EQ(error().code, Code::not_found);
  EXPECT_THAT(error().message, HasSubstr(folder_.path() + "/" + kLabels));
  EXPECT_THAT(error().message, HasSubstr("data.path"));
}

TEST_F(IdxTest, TruncatedAnywhereIsCorrupt) {
  for (size_t length = 0; length < images_.size(); ++length) {
    folder_.write(kImages, BytesView(images_).substr(0, length));
    EXPECT_EQ(error().code, Code::corrupt) << length;
    EXPECT_THAT(error().message, HasSubstr(kImages)) << length;
    EXPECT_THAT(error().message, HasSubstr(length < 4    ? "has only"
                                           : length < 16 ? "truncated inside its header"
                                                         : "is truncated: "))
        << length;
  }
  folder_.write(kImages, images_);
  for (size_t length = 0; length < labels_.size(); ++length) {
    folder_.write(kLabels, BytesView(labels_).substr(0, length));
    EXPECT_EQ(error().code, Code::corrupt) << length;
    EXPECT_THAT(error().message, HasSubstr(kLabels)) << length;
  }
}

TEST_F(IdxTest, TrailingBytesAreCorrupt) {
  folder_.write(kImages, images_ + "x");
  EXPECT_EQ(error().code, Code::corrupt);
  EXPECT_THAT(error().message, HasSubstr("1 bytes more"));
}

TEST_F(IdxTest, AnyOtherMagicIsCorruptAndShown) {
  for (size_t at = 0; at < 4; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = images_;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      folder_.write(kImages, damaged);
      EXPECT_EQ(error().code, Code::corrupt) << at << " " << bit;
    }
  }
  folder_.write(kImages, idx_bytes(0x0d03, {kCount, 3, 4}, pixels_));
  EXPECT_THAT(error().message, HasSubstr("0x00000d03"));
}

TEST_F(IdxTest, ExchangedFilesAreToldApart) {
  folder_.write(kImages, labels_);
  EXPECT_THAT(error().message, HasSubstr("this is a label file"));
  folder_.write(kImages, images_);
  folder_.write(kLabels, images_);
  EXPECT_THAT(error().message, HasSubstr("this is an image file"));
}

TEST_F(IdxTest, FilePackedTwiceIsToldSo) {
  folder_.write(kImages, gzip_bytes(gzip_bytes(images_)));
  EXPECT_THAT(error().message, HasSubstr("gzip file inside a gzip file"));
}

// Products of these overflow 64 bits, some of them to small numbers. If memory were taken first,
// the process would die here.
TEST_F(IdxTest, AbsurdSizesAreCorrupt) {
  const std::vector<std::vector<uint32_t>> claims = {
      {0xffffffff, 0xffffffff, 0xffffffff},
      {0xffffffff, 3, 4},
      {0x80000000, 0x80000000, 4},  // 2^64: wraps to 0
      {0x10000, 0x10000, 0x10000},
      {kCount, 0xffffffff, 4},
      {kCount, 3, 0x80000000},
  };
  for (const std::vector<uint32_t>& sizes : claims) {
    folder_.write(kImages, idx_bytes(0x803, sizes, pixels_));
    EXPECT_EQ(error().code, Code::corrupt);
    EXPECT_THAT(error().message, HasSubstr("truncated"));
    folder_.write(kImages, idx_bytes(0x803, sizes, ""));
    EXPECT_EQ(error().code, Code::corrupt);
  }
  folder_.write(kImages, idx_bytes(0x804, {0x10000, 0x10000, 0x10000, 0x10000}, ""));
  EXPECT_EQ(error().code, Code::corrupt);
}

TEST_F(IdxTest, ImagesWithoutPixelsAreCorrupt) {
  folder_.write(kImages, idx_bytes(0x803, {kCount, 0, 4}, ""));
  EXPECT_EQ(error().code, Code::corrupt);
  EXPECT_THAT(error().message, HasSubstr("1x0x4"));
  folder_.write(kImages, idx_bytes(0x803, {0xffffffff, 0xffffffff, 0}, ""));
  EXPECT_EQ(error().code, Code::corrupt);
}

TEST_F(IdxTest, ImagesThatNoIndexCanDescribeAreRefused) {
  folder_.write(kImages, idx_bytes(0x803, {1, 65'536, 1}, Bytes(65'536, 'x')));
  folder_.write(kLabels, idx_bytes(0x801, {1}, "\1"));
  EXPECT_EQ(error().code, Code::invalid);
  EXPECT_THAT(error().message, HasSubstr("1x65536 pixels"));
  folder_.write(kImages, idx_bytes(0x804, {1, 256, 1, 1}, Bytes(256, 'x')));
  EXPECT_EQ(error().code, Code::invalid);
  folder_.write(kImages, idx_bytes(0x804, {1, 255, 1, 1}, Bytes(255, 'x')));
  EXPECT_TRUE(open());
}

TEST_F(IdxTest, EmptyDataSetIsRefused) {
  folder_.write(kImages, idx_bytes(0x803, {0, 3, 4}, ""));
  folder_.write(kLabels, idx_bytes(0x801, {0}, ""));
  EXPECT_EQ(error().code, Code::invalid);
  EXPECT_THAT(error().message, HasSubstr("empty"));
}

TEST_F(IdxTest, DifferentCountsAreBothNamed) {
  folder_.write(kLabels, idx_bytes(0x801, {5}, BytesView("\0\0\0\0\0", 5)));
  EXPECT_EQ(error().code, Code::invalid);
  EXPECT_THAT(error().message, HasSubstr("6 images"));
  EXPECT_THAT(error().message, HasSubstr("5 labels"));
}

TEST_F(IdxTest, LabelOutOfRangeNamesSampleAndFile) {
  folder_.write(kLabels, idx_bytes(0x801, {kCount}, BytesView("\0\1\2\12\4\5", kCount)));
  EXPECT_EQ(error().code, Code::invalid);
  EXPECT_THAT(error().message, HasSubstr("sample 3 has the label 10"));
  EXPECT_THAT(error().message, HasSubstr(kLabels));
  EXPECT_THAT(error().message, HasSubstr("data.classes"));
  EXPECT_EQ(open_idx({.path = folder_.path(), .classes = 11}, Split::train).value()->classes(), 11);
}

TEST_F(IdxTest, FileLargerThanTheLimitIsRefused) {
  const auto opened = open_idx({.path = folder_.path(), .file_bytes_max = 50}, Split::train);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::exhausted);
}

}  // namespace
}  // namespace tern
