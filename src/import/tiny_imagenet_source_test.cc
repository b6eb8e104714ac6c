#include "import/tiny_imagenet_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "dataset/test_folder.h"
#include "import/test_archive.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

// val comes before its annotations, wnids.txt last: an archive may have any order.
TestFiles tiny() {
  return {
      {"val/images/val_0.JPEG", "v0"},
      {"val/images/val_1.JPEG", "v1"},
      {"test/images/test_0.JPEG", "t0"},
      {"train/n02/images/n02_0.JPEG", "b"},
      {"train/n02/n02_boxes.txt", "n02_0.JPEG\t0\t0\t1\t1"},
      {"train/n01/images/n01_0.JPEG", "a"},
      {"val/val_annotations.txt", "val_0.JPEG\tn02\t0\t0\t1\t1\r\nval_1.JPEG\tn01\t0\t0\t9\t9\n"},
      {"words.txt", "n00\tentity\nn01\tgoldfish, Carassius auratus\nn02\tfire salamander\n"},
      {"wnids.txt", "n02\nn01\n"}};
}

TestFiles below(const std::string& folder, const TestFiles& files) {
  TestFiles moved;
  for (const auto& [name, content] : files) moved.emplace_back(folder + name, content);
  return moved;
}

void expect_whole(const std::string& path) {
  const auto source = open_source(path, {});
  ASSERT_TRUE(source) << source.error().to_string();
  const Scanned scanned = scan_all(**source);
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  const std::vector<std::string> found = lines(scanned);
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()),
            (std::set<std::string>{"train n01 n01/n01_0.JPEG", "train n02 n02/n02_0.JPEG",
                                   "test n02 n02/val_0.JPEG", "test n01 n01/val_1.JPEG"}));
  EXPECT_THAT(found, SizeIs(4));
  EXPECT_THAT((*source)->classes(), ElementsAre("n01", "n02"));
  EXPECT_THAT((*source)->class_titles(), ElementsAre(Pair("n01", "goldfish, Carassius auratus"),
                                                     Pair("n02", "fire salamander")));
  EXPECT_THAT((*source)->describe(), HasSubstr("2 classes, 4 images"));
  EXPECT_EQ((*source)->ignored(), 5);
}

TEST(TinyImagenetSource, FolderAndArchivesGiveTheSame) {
  const TestFolder folder;
  for (const auto& [name, content] : below("tiny-imagenet-200/", tiny())) {
    folder.write(name, content);
  }
  expect_whole(folder.path());
  expect_whole(folder.path() + "/tiny-imagenet-200");
  const TestFolder packed;
  for (const std::string kind : {"zip", "zip-stored", "pax", "pax.xz"}) {
    SCOPED_TRACE(kind);
    expect_whole(packed.write("tiny.zip", pack_archive(kind, below("tiny-imagenet-200/", tiny()))));
    expect_whole(packed.write("flat.zip", pack_archive(kind, tiny())));
  }
}

// The tiny data set with one file replaced (or, with nothing, removed) does not import.
std::string failure_with(const std::string& name, const std::optional<Bytes>& content) {
  TestFiles files;
  for (const auto& file : tiny()) {
    if (file.first != name) files.push_back(file);
  }
  if (content) files.emplace_back(name, *content);
  const TestFolder folder;
  const Scanned scanned = scan_path(folder.write("t.tar", pack_archive("pax", files)));
  return scanned.status ? "" : scanned.status.error().message;
}

TEST(TinyImagenetSource, ListsThatDoNotFitTheImagesAreErrors) {
  EXPECT_THAT(failure_with("wnids.txt", ""), HasSubstr("names 0 classes"));
  EXPECT_THAT(failure_with("wnids.txt", "n01\nn03\n"), HasSubstr("not in wnids.txt"));
  EXPECT_THAT(failure_with("val/val_annotations.txt", "val_0.JPEG\tn02\n"),
              HasSubstr("val_1.JPEG: it has no line in val_annotations.txt"));
  EXPECT_THAT(failure_with("val/val_annotations.txt", "val_0.JPEG\n"), HasSubstr("the class ''"));
  EXPECT_THAT(failure_with("train/n09/images/n09_0.JPEG", "x"), HasSubstr("'n09' is not in"));
  EXPECT_THAT(failure_with("train/n01/n01_0.JPEG", "x"), HasSubstr("both named"));
  EXPECT_EQ(failure_with("words.txt", std::nullopt), "");
}

TEST(RealDataSources, TinyImagenetIsReadFromItsPackedTar) {
  const char* data = std::getenv("TERN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "TERN_TEST_DATA is not set";
  const auto source = open_source(std::string(data) + "/tiny-imagenet-32.tar.xz", {});
  ASSERT_TRUE(source) << source.error().to_string();
  int64_t train = 0, test = 0;
  const Status status = (*source)->scan([&](const SourceSample& sample) -> Status {
    ++(sample.split == Split::train ? train : test);
    EXPECT_TRUE(sample.bytes.starts_with("\xff\xd8")) << sample.name;
    return {};
  });
  EXPECT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(train, 16'000);
  EXPECT_EQ(test, 1'600);
  EXPECT_THAT((*source)->classes(), SizeIs(32));
  EXPECT_THAT((*source)->class_titles(), SizeIs(32));
}

}  // namespace
}  // namespace tern
