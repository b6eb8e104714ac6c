#include "import/tree_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "dataset/test_folder.h"
#include "import/test_archive.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TestFiles split_tree() {
  return {{"train/cats/b.jpg", "cat b"},    {"train/cats/a.JPEG", "cat a"},
          {"train/dogs/deep/c.png", "dog"}, {"val/cats/a.JPEG", "cat v"},
          {"val/dogs/d.jpg", "dog v"},      {"README.md", "no sample"},
          {"train/cats/Thumbs.db", "x"}};
}

void write_all(const TestFolder& folder, const TestFiles& files) {
  for (const auto& [name, content] : files) folder.write(name, content);
}

Error open_error(const std::string& path) {
  const auto source = open_source(path, {});
  return source ? fail(Code::internal, "it opened") : source.error();
}

TEST(TreeSource, TrainAndValFoldersBecomeTheSplits) {
  const TestFolder folder;
  write_all(folder, split_tree());
  const auto source = open_source(folder.path(), {});
  ASSERT_TRUE(source) << source.error().to_string();
  const Scanned scanned = scan_all(**source);
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(lines(scanned), ElementsAre("train cats cats/a.JPEG", "train cats cats/b.jpg",
                                          "train dogs dogs/deep/c.png", "test cats cats/a.JPEG",
                                          "test dogs dogs/d.jpg"));
  EXPECT_THAT(scanned.contents, ElementsAre("cat a", "cat b", "dog", "cat v", "dog v"));
  EXPECT_EQ((*source)->ignored(), 2);
  EXPECT_EQ((*source)->bytes_done(), (*source)->total_bytes());
  EXPECT_GT((*source)->total_bytes(), 0);
  EXPECT_THAT((*source)->describe(), HasSubstr("2 classes, 5 images (3 in train/, 2 in val/)"));
  // Again, the same.
  EXPECT_EQ(lines(scan_all(**source)), lines(scanned));
  EXPECT_EQ((*source)->ignored(), 2);
}

TEST(TreeSource, AnArchiveGivesTheSameSamplesAsItsFolder) {
  const TestFolder tree, packed;
  write_all(tree, split_tree());
  const Scanned plain = scan_path(tree.path());
  const std::vector<std::string> expected = lines(plain);
  TestFiles below;
  for (const auto& [name, content] : split_tree()) below.emplace_back("pets/" + name, content);
  below.emplace_back("__MACOSX/pets/train/cats/._b.jpg", "x");
  below.emplace_back("pets/.cache/train/cats/b.jpg", "x");
  for (const std::string kind : {"pax", "gnutar", "zip", "zip-stored", "pax.gz", "pax.xz"}) {
    SCOPED_TRACE(kind);
    const Scanned scanned = scan_path(packed.write("pets.tar", pack_archive(kind, below)));
    ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
    const std::vector<std::string> found = lines(scanned);
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()),
              std::set<std::string>(expected.begin(), expected.end()));
    EXPECT_EQ(found.size(), expected.size());
    const bool in_place = kind == "pax" || kind == "gnutar" || kind == "zip-stored";
    for (const SourceSample& sample : scanned.samples) {
      EXPECT_EQ(sample.range.has_value(), in_place);
    }
    EXPECT_EQ(scanned.contents.at(0), "cat b");
  }
}

TEST(TreeSource, ASplitIsMadeByNameWhereThereIsNone) {
  const TestFolder folder;
  for (int i = 0; i < 400; ++i) {
    folder.write((i % 2 == 0 ? "cats/" : "dogs/") + std::to_string(i) + ".jpg", "x");
  }
  const Scanned all_train = scan_path(folder.path());
  EXPECT_EQ(std::count_if(all_train.samples.begin(), all_train.samples.end(),
                          [](const auto& sample) { return sample.split == Split::test; }),
            0);
  const Scanned scanned = scan_path(folder.path(), {.test_share = 0.25});
  ASSERT_THAT(scanned.samples, SizeIs(400));
  const auto tests = std::count_if(scanned.samples.begin(), scanned.samples.end(),
                                   [](const auto& sample) { return sample.split == Split::test; });
  EXPECT_GT(tests, 60);
  EXPECT_LT(tests, 140);
  EXPECT_EQ(lines(scan_path(folder.path(), {.test_share = 0.25})), lines(scanned));
  // A larger share only adds to the test split.
  const Scanned more = scan_path(folder.path(), {.test_share = 0.5});
  for (size_t i = 0; i < 400; ++i) {
    if (scanned.samples[i].split == Split::test) {
      EXPECT_EQ(more.samples[i].split, Split::test);
    }
  }
}

TEST(TreeSource, TheSourcesOwnSplitIsNotDividedAgain) {
  const TestFolder folder;
  write_all(folder, split_tree());
  EXPECT_EQ(lines(scan_path(folder.path(), {.test_share = 0.9})), lines(scan_path(folder.path())));
}

TEST(TreeSource, ValIsPreferredToTestAndLayoutsAreFoundInAnyCase) {
  const TestFolder folder;
  write_all(folder, {{"d/Train/a/1.jpg", "x"},
                     {"d/Train/b/2.jpg", "x"},
                     {"d/Val/a/3.jpg", "x"},
                     {"d/test/unknown/4.jpg", "x"},
                     {"d/stray.jpg", "x"}});
  const auto source = open_source(folder.path(), {});
  ASSERT_TRUE(source) << source.error().to_string();
  EXPECT_THAT(lines(scan_all(**source)),
              ElementsAre("train a a/1.jpg", "train b b/2.jpg", "test a a/3.jpg"));
  EXPECT_EQ((*source)->ignored(), 2);
}

TEST(TreeSource, OrderIsThatOfTheBytesOfTheWholePath) {
  const TestFolder folder;
  write_all(folder, {{"a/x.jpg", "1"}, {"a-b/x.jpg", "2"}, {"a.jpg/x.jpg", "3"}, {"B/x.jpg", "4"}});
  EXPECT_THAT(lines(scan_path(folder.path())),
              ElementsAre("train B B/x.jpg", "train a-b a-b/x.jpg", "train a.jpg a.jpg/x.jpg",
                          "train a a/x.jpg"));
}

TEST(TreeSource, TooFewClassesSaysWhatIsNeeded) {
  const TestFolder empty, one, flat, only_val;
  EXPECT_EQ(open_error(empty.path()).code, Code::invalid);
  EXPECT_THAT(open_error(empty.path()).message, HasSubstr("no files"));
  write_all(one, {{"cats/1.jpg", "x"}, {"cats/2.jpg", "x"}});
  fs::create_directories(one.path() + "/dogs");  // a class folder without images is no class
  EXPECT_THAT(open_error(one.path()).message, HasSubstr("one class folder only, cats"));
  write_all(flat, {{"1.jpg", "x"}, {"2.jpg", "x"}});
  EXPECT_THAT(open_error(flat.path()).message, HasSubstr("no class folder"));
  write_all(only_val, {{"val/a/1.jpg", "x"}, {"val/b/1.jpg", "x"}});
  EXPECT_THAT(open_error(only_val.path()).message, HasSubstr("no train/"));
}

TEST(TreeSource, AClassThatIsOnlyInTestIsPointedOut) {
  const TestFolder folder;
  write_all(folder, {{"train/a/1.jpg", "x"}, {"train/b/1.jpg", "x"}, {"val/zebra/1.jpg", "x"}});
  EXPECT_THAT((*open_source(folder.path(), {}))->describe(), HasSubstr("not in train/: zebra"));
}

TEST(TreeSource, LinksToFilesAreFollowedAndLinksToFoldersAreNot) {
  const TestFolder folder, outside;
  write_all(folder, {{"a/1.jpg", "one"}, {"b/2.jpg", "two"}});
  outside.write("3.jpg", "three");
  fs::create_symlink(outside.path() + "/3.jpg", folder.path() + "/a/3.jpg");
  fs::create_symlink(folder.path() + "/nowhere", folder.path() + "/a/4.jpg");
  fs::create_directory_symlink(outside.path(), folder.path() + "/c");
  fs::create_directory_symlink(folder.path(), folder.path() + "/b/round");
  const auto source = open_source(folder.path(), {});
  ASSERT_TRUE(source);
  const Scanned scanned = scan_all(**source);
  EXPECT_THAT(lines(scanned), ElementsAre("train a a/1.jpg", "train a a/3.jpg", "train b b/2.jpg"));
  EXPECT_THAT(scanned.contents, ElementsAre("one", "three", "two"));
  EXPECT_THAT((*source)->describe(), HasSubstr("2 links to folders are not followed"));
}

TEST(TreeSource, AMemberThatComesTwiceIsAnError) {
  const TestFolder folder;
  const std::string path = folder.write(
      "x.tar", pack_archive("pax", {{"a/1.jpg", "x"}, {"b/1.jpg", "x"}, {"./a/1.jpg", "y"}}));
  const Scanned scanned = scan_path(path);
  ASSERT_FALSE(scanned.status);
  EXPECT_EQ(scanned.status.error().code, Code::corrupt);
  EXPECT_THAT(scanned.status.error().message, HasSubstr("a/1.jpg"));
}

TEST(TreeSource, AMemberOverTheLimitIsRefusedByName) {
  const TestFolder folder;
  for (const std::string kind : {"pax", "pax.gz", "zip"}) {
    const std::string path = folder.write(
        "x.tar", pack_archive(kind, {{"a/1.jpg", "x"}, {"b/large.jpg", Bytes(5000, 'x')}}));
    const Scanned scanned = scan_path(path, {.member_bytes_max = 4999});
    ASSERT_FALSE(scanned.status);
    EXPECT_EQ(scanned.status.error().code, Code::exhausted);
    EXPECT_THAT(scanned.status.error().message, HasSubstr("large.jpg"));
  }
}

TEST(TreeSource, EmptyImagesAreGivenAwayForTheImportToList) {
  const TestFolder folder;
  write_all(folder, {{"a/0.jpg", ""}, {"b/1.jpg", "x"}});
  const Scanned scanned = scan_path(folder.path());
  ASSERT_TRUE(scanned.status);
  ASSERT_THAT(scanned.samples, SizeIs(2));
  EXPECT_FALSE(scanned.samples[0].range);
  EXPECT_EQ(scanned.contents[0], "");
}

TEST(TreeSource, FilesWithControlCharactersInTheirNamesAreGivenAwayForTheImportToList) {
  const TestFolder folder;
  write_all(folder, {{"a/1.jpg", "x"},
                     {"b/2.jpg", "y"},
                     {"b/new\nline \xc3\xa9\xe9.jpg", "z"},
                     {"b/x\x7f.txt", "t"},
                     {"c\x1b/3.jpg", "z"}});
  const Scanned scanned = scan_path(folder.path());
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(lines(scanned),
              ElementsAre("train a a/1.jpg", "train b b/2.jpg",
                          "train b b/new\\x0aline \xc3\xa9\\xe9.jpg", "train c\\x1b c\\x1b/3.jpg"));
  for (const SourceSample& sample : scanned.samples) {
    const bool is_odd = sample.name.find('\\') != std::string::npos;
    EXPECT_EQ(sample.range.has_value(), !is_odd) << sample.name;
    EXPECT_EQ(sample.bad_cause,
              is_odd ? "its name has control characters; give it another one" : "");
  }
}

TEST(TreeSource, BytesThatAreNoUtf8AreAName) {
  const TestFolder folder;
  write_all(folder, {{"a/caf\xe9.jpg", "x"}, {"b/2.jpg", "y"}});
  const Scanned scanned = scan_path(folder.path());
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(lines(scanned), ElementsAre("train a a/caf\xe9.jpg", "train b b/2.jpg"));
  EXPECT_THAT(scanned.contents, ElementsAre("x", "y"));
}

TEST(TreeSource, TheVersionIsAnotherOnceAFileIsWritten) {
  const TestFolder folder;
  write_all(folder, {{"a/1.jpg", "x"}, {"b/2.jpg", "y"}});
  folder.write("x.tar", pack_archive("pax", {{"a/1.jpg", "x"}, {"b/1.jpg", "x"}}));
  for (const std::string& path : {folder.path(), folder.path() + "/x.tar"}) {
    const std::string file = path.ends_with(".tar") ? path : path + "/b/2.jpg";
    const std::string before = (*open_source(path, {}))->version();
    EXPECT_EQ(before.size(), 16u);
    EXPECT_EQ((*open_source(path, {}))->version(), before);
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::nanoseconds(1000));
    EXPECT_NE((*open_source(path, {}))->version(), before);
  }
}

TEST(RealDataSources, HymenopteraIsReadFromItsTar) {
  const char* data = std::getenv("TERN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "TERN_TEST_DATA is not set";
  const auto source = open_source(std::string(data) + "/hymenoptera-200.tar", {});
  ASSERT_TRUE(source) << source.error().to_string();
  const Scanned scanned = scan_all(**source);
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(scanned.samples, SizeIs(200));
  std::set<std::string> classes;
  int64_t tests = 0;
  for (size_t i = 0; i < scanned.samples.size(); ++i) {
    classes.insert(scanned.samples[i].class_name);
    tests += scanned.samples[i].split == Split::test ? 1 : 0;
    EXPECT_TRUE(scanned.samples[i].range);
    EXPECT_TRUE(scanned.contents[i].starts_with("\xff\xd8")) << scanned.samples[i].name;
  }
  EXPECT_EQ(tests, 80);
  EXPECT_THAT(classes, ElementsAre("ants", "bees"));
}

}  // namespace
}  // namespace tern
