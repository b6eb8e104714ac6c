#include "import/idx_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/test_folder.h"
#include "import/test_archive.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void write_split(const TestFolder& folder, const std::string& prefix, bool is_packed) {
  const Bytes images =
      idx_bytes(0x803, {2, 2, 3}, prefix == "train" ? "abcdefghijkl" : "ABCDEFGHIJKL");
  const Bytes labels = idx_bytes(0x801, {2}, Bytes("\x07\x00", 2));
  const std::string ending = is_packed ? ".gz" : "";
  folder.write(prefix + "-images-idx3-ubyte" + ending, is_packed ? gzip_bytes(images) : images);
  folder.write(prefix + "-labels-idx1-ubyte" + ending, is_packed ? gzip_bytes(labels) : labels);
}

TEST(IdxSource, PlainAndPackedFilesGiveTheSame) {
  for (const bool is_packed : {false, true}) {
    const TestFolder folder;
    write_split(folder, "train", is_packed);
    write_split(folder, "t10k", is_packed);
    const auto source = open_source(folder.path(), {});
    ASSERT_TRUE(source) << source.error().to_string();
    const Scanned scanned = scan_all(**source);
    ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
    EXPECT_THAT(lines(scanned),
                ElementsAre("train 7 000000", "train 0 000001", "test 7 000000", "test 0 000001"));
    EXPECT_THAT(scanned.contents, ElementsAre("abcdef", "ghijkl", "ABCDEF", "GHIJKL"));
    for (const SourceSample& sample : scanned.samples) {
      EXPECT_EQ(sample.range.has_value(), !is_packed);
      EXPECT_EQ(sample.raw, (ImageInfo{.format = ImageFormat::raw, .size = {3, 2}, .channels = 1}));
    }
    EXPECT_EQ((*source)->bytes_done(), (*source)->total_bytes());
  }
}

TEST(IdxSource, TestFilesMayBeAbsentAndOthersMayNot) {
  const TestFolder folder;
  write_split(folder, "train", false);
  EXPECT_THAT(lines(scan_path(folder.path())), ElementsAre("train 7 000000", "train 0 000001"));
  EXPECT_THAT(lines(scan_path(folder.path(), {.test_share = 1})),
              ElementsAre("test 7 000000", "test 0 000001"));
  folder.remove("train-labels-idx1-ubyte");
  EXPECT_THAT(scan_path(folder.path()).status.error().message,
              HasSubstr("train-labels-idx1-ubyte"));
}

TEST(IdxSource, FilesThatDoNotBelongTogetherAreErrors) {
  const TestFolder folder;
  write_split(folder, "train", false);
  folder.write("train-labels-idx1-ubyte", idx_bytes(0x801, {3}, "abc"));
  EXPECT_THAT(scan_path(folder.path()).status.error().message, HasSubstr("2 images"));
  folder.write("train-labels-idx1-ubyte", idx_bytes(0x803, {2, 2, 3}, "abcdefghijkl"));
  EXPECT_THAT(scan_path(folder.path()).status.error().message, HasSubstr("exchanged"));
  folder.write("train-labels-idx1-ubyte", idx_bytes(0x801, {2}, "ab"));
  folder.write("train-images-idx3-ubyte", idx_bytes(0x804, {2, 2, 1, 3}, "abcdefghijkl"));
  EXPECT_THAT(scan_path(folder.path()).status.error().message, HasSubstr("2x1x3"));
}

TEST(IdxSource, HeadersAreHeldAgainstTheFile) {
  const Bytes whole = idx_bytes(0x803, {2, 2, 3}, "abcdefghijkl");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_idx(whole.substr(0, length), static_cast<int64_t>(length))) << length;
  }
  EXPECT_TRUE(parse_idx(whole, static_cast<int64_t>(whole.size())));
  EXPECT_FALSE(parse_idx(whole, static_cast<int64_t>(whole.size()) + 1));
  const uint32_t most = 0xffffffff;
  EXPECT_FALSE(parse_idx(idx_bytes(0x804, {most, most, most, most}, "x"), 21));
  EXPECT_FALSE(parse_idx(idx_bytes(0x8ff, {1}, "x"), 9));
  EXPECT_FALSE(parse_idx(idx_bytes(0x903, {1, 1, 1}, "x"), 17));
  EXPECT_FALSE(parse_idx(idx_bytes(0x800, {}, ""), 4));
}

}  // namespace
}  // namespace tern
