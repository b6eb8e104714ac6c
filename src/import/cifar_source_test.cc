#include "import/cifar_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dataset/test_folder.h"
#include "import/test_archive.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr char kNames[] =
    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

// `labels` records, their pixels all of one value each.
Bytes batch(const std::vector<int>& labels, const Bytes& before_label, int value) {
  Bytes bytes;
  for (const int label : labels) {
    bytes +=
        before_label + Bytes(1, static_cast<char>(label)) + Bytes(3072, static_cast<char>(value));
    ++value;
  }
  return bytes;
}

TestFiles cifar10(const std::string& above) {
  TestFiles files = {{above + "batches.meta.txt", kNames}};
  for (int i = 1; i <= 5; ++i) {
    files.emplace_back(above + "data_batch_" + std::to_string(i) + ".bin",
                       batch({i, 9 - i}, "", 10 * i));
  }
  files.emplace_back(above + "test_batch.bin", batch({0}, "", 200));
  files.emplace_back(above + "readme.html", "x");
  return files;
}

void expect_cifar10(const std::string& path, bool in_place) {
  const auto source = open_source(path, {});
  ASSERT_TRUE(source) << source.error().to_string();
  const Scanned scanned = scan_all(**source);
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  ASSERT_THAT(scanned.samples, SizeIs(11));
  EXPECT_EQ(lines(scanned)[0], "train automobile data_batch_1/00000");
  EXPECT_EQ(lines(scanned)[9], "train deer data_batch_5/00001");
  EXPECT_EQ(lines(scanned)[10], "test airplane test_batch/00000");
  for (const SourceSample& sample : scanned.samples) {
    EXPECT_EQ(sample.range.has_value(), in_place);
    EXPECT_EQ(sample.raw, (ImageInfo{.format = ImageFormat::raw, .size = {32, 32}, .channels = 3}));
  }
  EXPECT_EQ(scanned.contents[3], Bytes(3072, static_cast<char>(21)));
  EXPECT_THAT((*source)->classes(), SizeIs(10));
  EXPECT_EQ((*source)->ignored(), 2);
}

TEST(CifarSource, Cifar10IsReadFromFoldersAndArchives) {
  const TestFolder flat, nested, packed;
  for (const auto& [name, content] : cifar10("")) flat.write(name, content);
  for (const auto& [name, content] : cifar10("cifar-10-batches-bin/")) nested.write(name, content);
  expect_cifar10(flat.path(), true);
  expect_cifar10(nested.path(), true);
  const TestFiles files = cifar10("cifar-10-batches-bin/");
  expect_cifar10(packed.write("cifar-10-binary.tar.gz", pack_archive("gnutar.gz", files)), false);
  expect_cifar10(packed.write("cifar.tar", pack_archive("pax", files)), true);
}

// The tar that is fetched has its batches in no order; unpacked, they are in that of their names.
TEST(CifarSource, TheOrderOfTheArchiveDoesNotCount) {
  const TestFolder packed;
  TestFiles files = cifar10("cifar-10-batches-bin/");
  std::ranges::reverse(files);
  expect_cifar10(packed.write("a.tar.gz", pack_archive("gnutar.gz", files)), false);
  expect_cifar10(packed.write("b.tar", pack_archive("pax", files)), true);
  std::swap(files[3], files[6]);
  expect_cifar10(packed.write("c.tar", pack_archive("pax", files)), true);
  files.push_back(files[2]);
  const Scanned twice = scan_path(packed.write("d.tar", pack_archive("pax", files)));
  ASSERT_FALSE(twice.status);
  EXPECT_THAT(twice.status.error().message, HasSubstr("twice"));
}

TEST(CifarSource, ABatchThatHasGoneSinceItWasOpenedIsMissed) {
  const TestFolder folder;
  for (const auto& [name, content] : cifar10("")) folder.write(name, content);
  const auto source = open_source(folder.path(), {});
  ASSERT_TRUE(source);
  folder.remove("data_batch_3.bin");
  const Scanned scanned = scan_all(**source);
  ASSERT_FALSE(scanned.status);
  EXPECT_THAT(scanned.status.error().message, HasSubstr("has no data_batch_3.bin any more"));
}

TEST(CifarSource, Cifar100UsesTheFineLabel) {
  std::string names;
  for (int i = 0; i < 100; ++i) names += "fine" + std::to_string(i) + "\n";
  const TestFolder folder;
  folder.write("train.bin", batch({99, 3}, "\x07", 1));
  folder.write("test.bin", batch({50}, "\x01", 9));
  folder.write("fine_label_names.txt", names);
  folder.write("coarse_label_names.txt", "x");
  const Scanned scanned = scan_path(folder.path());
  ASSERT_TRUE(scanned.status) << scanned.status.error().to_string();
  EXPECT_THAT(lines(scanned),
              testing::UnorderedElementsAre("test fine50 test/00000", "train fine99 train/00000",
                                            "train fine3 train/00001"));
  EXPECT_EQ(scanned.contents.back(), Bytes(3072, '\x09'));
}

std::string failure_with(const std::string& name, const std::optional<Bytes>& content) {
  const TestFolder folder;
  for (const auto& [file, bytes] : cifar10("")) folder.write(file, bytes);
  if (content) folder.write(name, *content);
  if (!content) folder.remove(name);
  const Scanned scanned = scan_path(folder.path());
  return scanned.status ? "" : scanned.status.error().message;
}

TEST(CifarSource, DamagedAndMissingBatchesAreNamed) {
  EXPECT_THAT(failure_with("data_batch_3.bin", std::nullopt), HasSubstr("not data_batch_3.bin"));
  EXPECT_THAT(failure_with("test_batch.bin", std::nullopt), HasSubstr("not test_batch.bin"));
  EXPECT_THAT(failure_with("data_batch_2.bin", Bytes(3072, 'x')), HasSubstr("data_batch_2.bin"));
  EXPECT_THAT(failure_with("data_batch_2.bin", ""), HasSubstr("has 0 bytes"));
  EXPECT_THAT(failure_with("data_batch_2.bin", batch({1, 10}, "", 0)),
              HasSubstr("record 1 has the label 10"));
  EXPECT_THAT(failure_with("batches.meta.txt", "cat\ncat\n"), HasSubstr("has 2 names"));
  EXPECT_EQ(failure_with("batches.meta.txt", std::nullopt), "");
  EXPECT_THAT(failure_with("train.bin", "x"), testing::IsEmpty());
  EXPECT_EQ(failure_with("readme.html", std::nullopt), "");
}

TEST(CifarSource, ThePythonVersionIsRecognised) {
  const TestFolder folder;
  folder.write("cifar-10-batches-py/data_batch_1", "pickle");
  EXPECT_THAT(open_source(folder.path(), {}).error().message, HasSubstr("python version"));
}

}  // namespace
}  // namespace tern
