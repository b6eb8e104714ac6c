#include "dataset/in_memory_dataset.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "core/hash.h"
#include "dataset/test_folder.h"
#include "dataset/test_read.h"

namespace tern {
namespace {

Samples three_samples() {
  return {.shape = {1, 2, 2}, .classes = 4, .pixels = "aaaabbbbcccc", .labels = {3, 0, 1}};
}

// docs/format_dataset_id.md, written out by hand.
TEST(InMemoryDataset, IdIsTheHashThatTheFormatPageDefines) {
  const auto number = [](uint64_t value) {
    Bytes bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
    return bytes;
  };
  const auto field = [&](const Bytes& bytes) { return number(bytes.size()) + bytes; };
  const auto raw_sha256 = [](const Bytes& bytes) {
    const Digest digest = sha256(bytes);
    return Bytes(digest.begin(), digest.end());
  };
  const Bytes index = field("tern-dataset-index-1") + number(4) + number(3) + number(1) +
                      number(2) + number(2) +                                                 //
                      field("train/00000000") + number(4) + number(3) + raw_sha256("aaaa") +  //
                      field("train/00000001") + number(4) + number(0) + raw_sha256("bbbb") +  //
                      field("train/00000002") + number(4) + number(1) + raw_sha256("cccc");
  EXPECT_EQ(dataset_id(three_samples(), Split::train), to_hex(sha256(index)));
}

TEST(InMemoryDataset, IdOfASmallSetNeverChanges) {
  EXPECT_EQ(dataset_id(three_samples(), Split::train),
            "18d9640dda2a7d287223be5714484cbc095c3178d382c925f83e18b778400c94");
}

TEST(InMemoryDataset, IdChangesWithEverythingThatIsTheData) {
  std::set<std::string> ids = {dataset_id(three_samples(), Split::train),
                               dataset_id(three_samples(), Split::test)};
  const std::vector<std::function<void(Samples&)>> changes = {
      [](Samples& s) { s.pixels[11] = 'd'; },
      [](Samples& s) { s.pixels[0] = 'b'; },
      [](Samples& s) { s.labels[2] = 2; },
      [](Samples& s) { s.classes = 5; },
      [](Samples& s) { s.shape = {1, 1, 4}; },
      [](Samples& s) { s.shape = {4, 1, 1}; },
      [](Samples& s) { std::swap(s.labels[0], s.labels[1]); },
      [](Samples& s) {
        s.labels.pop_back();
        s.pixels.resize(8);
      },
  };
  for (const auto& change : changes) {
    Samples samples = three_samples();
    change(samples);
    ids.insert(dataset_id(samples, Split::train));
  }
  EXPECT_EQ(ids.size(), changes.size() + 2);
}

TEST(InMemoryDataset, GivesBackWhatWasPutIn) {
  const InMemoryDataset dataset("idx:somewhere/train", Split::train, three_samples());
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.classes(), 4);
  EXPECT_EQ(dataset.shape(), (ImageShape{1, 2, 2}));
  EXPECT_EQ(dataset.name(), "idx:somewhere/train");
  EXPECT_EQ(dataset.id(), dataset_id(three_samples(), Split::train));
  std::vector<uint8_t> image(4);
  ASSERT_TRUE(read_whole(dataset, 1, image));
  EXPECT_EQ(image, (std::vector<uint8_t>{'b', 'b', 'b', 'b'}));
  EXPECT_EQ(dataset.label(0), 3);
  EXPECT_EQ(dataset.label(2), 1);
}

TEST(InMemoryDataset, FetchGivesItsOwnMemoryAndLeavesTheBufferAlone) {
  const InMemoryDataset dataset("idx:somewhere/train", Split::train, three_samples());
  Bytes buffer = "untouched";
  const Result<BytesView> first = dataset.fetch(2, buffer);
  const Result<BytesView> second = dataset.fetch(2, buffer);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, "cccc");
  EXPECT_EQ(first->data(), second->data());
  EXPECT_EQ(buffer, "untouched");
  EXPECT_EQ(dataset.where(2), "sample 2 of idx:somewhere/train");
  EXPECT_EQ(dataset.shards(), std::vector<int64_t>{3});
}

TEST(InMemoryDataset, ViewIsCutFromRawPixels) {
  const InMemoryDataset dataset(
      "x", Split::train, {.shape = {1, 2, 3}, .classes = 2, .pixels = "abcdef", .labels = {1}});
  EXPECT_EQ(dataset.info(0),
            (ImageInfo{.format = ImageFormat::raw, .size = {3, 2}, .channels = 1}));
  ImageDecoder decoder;
  const View view{.left = 1,
                  .top = 0,
                  .width = 2,
                  .height = 2,
                  .out_width = 2,
                  .out_height = 2,
                  .mirror = true};
  std::vector<uint8_t> image(4);
  Bytes buffer;
  ASSERT_TRUE(dataset.decode(0, dataset.fetch(0, buffer).value(), &view, decoder, image));
  EXPECT_EQ(image, (std::vector<uint8_t>{'c', 'b', 'f', 'e'}));
}

TEST(InMemoryDatasetDeathTest, SamplesThatDoNotFitTogetherAreOurBug) {
  Samples missing_pixels = three_samples();
  missing_pixels.labels.push_back(0);
  missing_pixels.pixels.append("ddd");
  EXPECT_DEATH(InMemoryDataset("x", Split::train, missing_pixels), "CHECK");
  Samples bad_label = three_samples();
  bad_label.labels[1] = 4;
  EXPECT_DEATH(InMemoryDataset("x", Split::train, bad_label), "CHECK");
  EXPECT_DEATH(InMemoryDataset("x", Split::train, Samples{.shape = {1, 2, 2}, .classes = 4}),
               "CHECK");
}

}  // namespace
}  // namespace tern
