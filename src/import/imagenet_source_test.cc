#include "import/imagenet_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/test_folder.h"
#include "import/test_archive.h"
#include "import/test_mat.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

constexpr char kTrain[] = "ILSVRC2012_img_train.tar";
constexpr char kVal[] = "ILSVRC2012_img_val.tar";
constexpr char kDevkit[] = "ILSVRC2012_devkit_t12.tar.gz";

// Ids are not in the order of the WNIDs, and 1001 is a synset above the classes.
Bytes meta_mat() {
  const MatWriter mat(false);
  return mat.file(mat.compressed(synsets_matrix(
      mat, {{1, "n02", "cat"}, {2, "n01", "tench, Tinca tinca"}, {1001, "n00", "animal"}})));
}

Bytes devkit(const Bytes& meta, const Bytes& truth) {
  return pack_archive(
      "gnutar.gz", {{"ILSVRC2012_devkit_t12/readme.txt", "x"},
                    {"ILSVRC2012_devkit_t12/data/meta.mat", meta},
                    {"ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", truth}});
}

Bytes train_tar() {
  const Bytes cats =
      pack_archive("gnutar", {{"n02_1.JPEG", varied_bytes(3000)}, {"n02_7.JPEG", "b"}});
  const Bytes fish = pack_archive("gnutar", {{"n01_3.JPEG", "fish"}});
  return pack_archive("gnutar", {{"n02.tar", cats}, {"n01.tar", fish}, {"note.txt", "x"}});
}

Bytes val_tar() {
  return pack_archive("gnutar", {{"ILSVRC2012_val_00000002.JPEG", "second"},
                                 {"ILSVRC2012_val_00000001.JPEG", "first"}});
}

void write_all(const TestFolder& folder) {
  folder.write(kTrain, train_tar());
  folder.write(kVal, val_tar());
  folder.write(kDevkit, devkit(meta_mat(), "2\n1\n"));
}

TEST(ImagenetSource, TheThreeFilesGiveEverySampleInPlace) {
  const TestFolder folder;
  write_all(folder);
  const auto source = open_source(folder.path(), {.test_share = 0.5});
  ASSERT_TRUE(source) << source.error().to_string();
  const Scanned scanned = scan_all(**source);
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(lines(scanned),
              ElementsAre("train n02 n02/n02_1.JPEG", "train n02 n02/n02_7.JPEG",
                          "train n01 n01/n01_3.JPEG", "test n02 n02/ILSVRC2012_val_00000002.JPEG",
                          "test n01 n01/ILSVRC2012_val_00000001.JPEG"));
  EXPECT_THAT(scanned.contents, ElementsAre(varied_bytes(3000), "b", "fish", "second", "first"));
  for (const SourceSample& sample : scanned.samples) EXPECT_TRUE(sample.range) << sample.name;
  EXPECT_EQ(scanned.samples[0].range->file, kTrain);
  EXPECT_THAT((*source)->classes(), ElementsAre("n01", "n02"));
  EXPECT_THAT((*source)->class_titles(),
              ElementsAre(Pair("n01", "tench, Tinca tinca"), Pair("n02", "cat")));
  EXPECT_EQ((*source)->ignored(), 1);
  EXPECT_EQ((*source)->bytes_done(), (*source)->total_bytes());
  EXPECT_THAT((*source)->describe(), Not(HasSubstr("warning")));
  EXPECT_EQ(lines(scan_all(**source)), lines(scanned));
}

TEST(ImagenetSource, AMissingFileIsNamedWithWhereToGetIt) {
  for (const char* file : {kTrain, kDevkit}) {
    const TestFolder folder;
    write_all(folder);
    folder.remove(file);
    const auto source = open_source(folder.path(), {});
    ASSERT_FALSE(source);
    EXPECT_EQ(source.error().code, Code::invalid);
    EXPECT_THAT(source.error().message, HasSubstr(file));
    EXPECT_THAT(source.error().message, HasSubstr("image-net.org"));
  }
}

TEST(ImagenetSource, WithoutValTheTestSplitIsEmptyAndSaysSo) {
  const TestFolder folder;
  write_all(folder);
  folder.remove(kVal);
  const auto source = open_source(folder.path(), {});
  ASSERT_TRUE(source) << source.error().to_string();
  EXPECT_THAT((*source)->describe(), HasSubstr("ILSVRC2012_img_val.tar is missing"));
  EXPECT_EQ(scan_all(**source).samples.size(), 3U);
  EXPECT_EQ(scan_path(folder.path(), {.test_share = 1}).samples.at(0).split, Split::test);
}

TEST(ImagenetSource, OnePartAloneSaysToGiveTheFolder) {
  const TestFolder folder;
  write_all(folder);
  EXPECT_THAT(open_source(folder.path() + "/" + kTrain, {}).error().message,
              HasSubstr("give the folder"));
}

std::string failure_with(const std::string& name, const Bytes& content) {
  const TestFolder folder;
  write_all(folder);
  folder.write(name, content);
  const Scanned scanned = scan_path(folder.path());
  return scanned.status ? "" : scanned.status.error().message;
}

TEST(ImagenetSource, PartsThatDoNotBelongTogetherAreErrors) {
  const Bytes inner = pack_archive("gnutar", {{"n09_1.JPEG", "x"}});
  EXPECT_THAT(failure_with(kTrain, pack_archive("gnutar", {{"n09.tar", inner}})),
              HasSubstr("n09 is none of the classes"));
  EXPECT_THAT(failure_with(kTrain, pack_archive("gnutar", {{"n01.tar", "no tar"}})),
              HasSubstr("n01.tar"));
  EXPECT_THAT(
      failure_with(kTrain, pack_archive("gnutar", {{"n01.tar", inner}, {"n01.tar", inner}})),
      HasSubstr("both named"));
  EXPECT_THAT(failure_with(kVal, pack_archive("gnutar", {{"ILSVRC2012_val_00000003.JPEG", "x"}})),
              HasSubstr("images 1 to 2"));
  EXPECT_THAT(failure_with(kVal, pack_archive("gnutar", {{"x.JPEG", "x"}})), HasSubstr("x.JPEG"));
  EXPECT_THAT(failure_with(kDevkit, devkit(meta_mat(), "2\n1001\n")), HasSubstr("line 2"));
  EXPECT_THAT(failure_with(kDevkit, devkit("garbage", "1\n")), HasSubstr("meta.mat"));
  EXPECT_THAT(failure_with(kDevkit, pack_archive("pax.gz", {{"x", "x"}})), HasSubstr("meta.mat"));
  const MatWriter mat(false);
  const Bytes twice = mat.file(synsets_matrix(mat, {{1, "n02", ""}, {1, "n01", ""}}));
  EXPECT_THAT(failure_with(kDevkit, devkit(twice, "1\n")), HasSubstr("comes twice"));
  const Bytes evil = mat.file(synsets_matrix(mat, {{1, "../n02", ""}, {2, "n01", ""}}));
  EXPECT_THAT(failure_with(kDevkit, devkit(evil, "1\n")), HasSubstr("no proper name"));
}

TEST(ImagenetSource, ATrainTarThatIsCutShortIsAnErrorWhereverItIsCut) {
  const Bytes whole = train_tar();
  for (size_t length = 0; length + 1024 < whole.size(); length += 256) {
    EXPECT_THAT(failure_with(kTrain, whole.substr(0, length)), HasSubstr(kTrain)) << length;
  }
}

}  // namespace
}  // namespace tern
