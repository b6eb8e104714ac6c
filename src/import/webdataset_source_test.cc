#include "import/webdataset_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "dataset/test_folder.h"
#include "import/test_archive.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TestFiles shard(const std::string& text) {
  return {{"000.jpg", text + "0"},
          {"000.cls", "3\n"},
          {"000.json", "{}"},
          {"001.cls", "12"},
          {"001.PNG", text + "1"},
          {"sub.d/002.x.jpg", "no"},
          {"sub.d/003.jpeg", text + "3"},
          {"sub.d/003.cls", "0"}};
}

TEST(WebDatasetSource, ShardsOfAFolderAreReadInOrder) {
  const TestFolder folder;
  folder.write("val-0.tar", pack_archive("pax", shard("v")));
  folder.write("train-1.tar.zst", pack_archive("pax.zst", shard("b")));
  folder.write("train-0.tar", pack_archive("gnutar", shard("a")));
  const auto source = open_source(folder.path(), {.test_share = 0.5});
  ASSERT_TRUE(source) << source.error().to_string();
  const Scanned scanned = scan_all(**source);
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(lines(scanned),
              ElementsAre("train 3 train-0.tar/000.jpg", "train 12 train-0.tar/001.PNG",
                          "train 0 train-0.tar/sub.d/003.jpeg", "train 3 train-1.tar.zst/000.jpg",
                          "train 12 train-1.tar.zst/001.PNG",
                          "train 0 train-1.tar.zst/sub.d/003.jpeg", "test 3 val-0.tar/000.jpg",
                          "test 12 val-0.tar/001.PNG", "test 0 val-0.tar/sub.d/003.jpeg"));
  EXPECT_THAT(scanned.contents, ElementsAre("a0", "a1", "a3", "b0", "b1", "b3", "v0", "v1", "v3"));
  EXPECT_TRUE(scanned.samples[0].range);
  EXPECT_FALSE(scanned.samples[3].range);
  EXPECT_EQ((*source)->ignored(), 6);
  EXPECT_EQ((*source)->bytes_done(), (*source)->total_bytes());
  EXPECT_EQ(lines(scan_all(**source)), lines(scanned));
}

TEST(WebDatasetSource, OneShardAloneIsASourceToo) {
  const TestFolder folder;
  const std::string path = folder.write("shard.tar", pack_archive("pax", shard("s")));
  EXPECT_THAT(lines(scan_path(path)),
              ElementsAre("train 3 shard.tar/000.jpg", "train 12 shard.tar/001.PNG",
                          "train 0 shard.tar/sub.d/003.jpeg"));
  EXPECT_THAT(lines(scan_path(path, {.test_share = 1})).at(0), StartsWith("test "));
}

TEST(WebDatasetSource, AShardsNameSaysItsSplit) {
  EXPECT_EQ(split_of_shard("imagenet-train-0001.tar"), Split::train);
  EXPECT_EQ(split_of_shard("imagenet-val-0001.tar"), Split::test);
  EXPECT_EQ(split_of_shard("Test_3.tar"), Split::test);
  EXPECT_EQ(split_of_shard("validation/0001.tar"), Split::test);
  EXPECT_EQ(split_of_shard("test-run/train-1.tar"), Split::train);
  EXPECT_EQ(split_of_shard("0001.tar"), Split::train);
}

std::string failure_of(const TestFiles& files) {
  const TestFolder folder;
  const Scanned scanned = scan_path(folder.write("x.tar", pack_archive("pax", files)));
  return scanned.status ? "" : scanned.status.error().message;
}

TEST(WebDatasetSource, SamplesThatAreNotWholeAreErrors) {
  const std::pair<std::string, Bytes> first = {"a.cls", "1"};
  EXPECT_EQ(failure_of({first, {"a.jpg", "x"}}), "");
  EXPECT_THAT(failure_of({first, {"b.jpg", "x"}, {"c.cls", "1"}}), HasSubstr("has no b.cls"));
  EXPECT_THAT(failure_of({first, {"b.jpg", "x"}}), HasSubstr("has no b.cls"));
  EXPECT_THAT(failure_of({first, {"a.jpg", "x"}, {"a.png", "x"}}), HasSubstr("two images"));
  for (const char* text : {"cat", "", "-1", "1.5", "1\n2", "99999999999999999999"}) {
    EXPECT_THAT(failure_of({{"a.cls", text}, {"a.jpg", "x"}}), HasSubstr("a.cls: is not a number"));
  }
  EXPECT_THAT(failure_of({{"a.cls", Bytes(65, '1')}, {"a.jpg", "x"}}), HasSubstr("larger than 64"));
  EXPECT_THAT(
      failure_of({first, {"a.jpg", "x"}, {"b.cls", "2"}, {"b.jpg", "x"}, first, {"a.jpg", "x"}}),
      HasSubstr("both named"));
}

TEST(WebDatasetSource, AShardThatIsCutShortIsAnErrorWhereverItIsCut) {
  const TestFolder folder;
  folder.write("a.tar", pack_archive("pax", shard("a")));
  const std::string cut = folder.write("b.tar", pack_archive("pax", shard("b")));
  const auto whole = std::filesystem::file_size(cut);
  for (auto size = whole - 1024; size > 0; size -= std::min<uintmax_t>(size, 256)) {
    std::filesystem::resize_file(cut, size);
    const Scanned scanned = scan_path(folder.path());
    ASSERT_FALSE(scanned.status) << size;
    EXPECT_THAT(scanned.status.error().message, HasSubstr("b.tar"));
  }
}

}  // namespace
}  // namespace tern
