#include "loader/shuffle_quality.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "loader/test_loader.h"

namespace tern {
namespace {

// As imported data lies: class after class.
class SortedDataset final : public ScriptedDataset {
 public:
  SortedDataset(int64_t samples, int64_t classes) : ScriptedDataset(samples, classes) {}
  int64_t label(int64_t sample) const override { return sample / (size() / classes()); }
};

double ratio(const Dataset& dataset, Shuffle shuffle, int64_t batch, int64_t shard = 250) {
  const std::vector<int64_t> shards(static_cast<size_t>(dataset.size() / shard), shard);
  return shuffle_quality(Plan("x", dataset.size(), 1, batch, shuffle, shards), dataset).ratio;
}

TEST(ShuffleQuality, FullIsAboutOneAndSortedIsOneClassInABatch) {
  const SortedDataset dataset(50'000, 100);
  EXPECT_GT(ratio(dataset, {.order = Order::shuffled}, 64), 0.97);
  EXPECT_GT(ratio(dataset, {.order = Order::shuffled}, 1000), 0.99);
  EXPECT_NEAR(ratio(dataset, {.order = Order::sequential}, 1000), 2.0 / 100, 0.001);
  EXPECT_NEAR(ratio(dataset, {.order = Order::sequential}, 4), 1.0 / 4, 0.01);
  // The labels of the scripted data set go round, so that even in sequence they are mixed.
  EXPECT_EQ(ratio(ScriptedDataset(49'000, 7), {.order = Order::sequential}, 64), 1);
}

TEST(ShuffleQuality, LargerWindowsAreBetter) {
  const SortedDataset dataset(50'000, 100);
  double before = 0;
  for (const int64_t window : {1, 4, 16, 64}) {
    const double now = ratio(dataset, {.order = Order::windowed, .window = window}, 256);
    EXPECT_GT(now, before + 0.005) << window;
    before = now;
  }
  EXPECT_LT(before, 0.7);
  EXPECT_GT(ratio(dataset, {.order = Order::windowed, .window = 200}, 256), 0.99);
}

// What is expected, against counting all draws of 2 of 4 samples, of the classes 0 0 1 2: one of
// the six pairs holds one class, five hold two.
TEST(ShuffleQuality, ExpectedClassesAreThoseOfDrawingWithoutReplacement) {
  class Small final : public ScriptedDataset {
   public:
    Small() : ScriptedDataset(4, 3) {}
    int64_t label(int64_t sample) const override { return std::max<int64_t>(sample - 1, 0); }
  };
  const Small dataset;
  const Plan plan("x", 4, 1, 2, Order::sequential);
  const ShuffleQuality quality = shuffle_quality(plan, dataset);
  EXPECT_NEAR(quality.classes_expected, 11.0 / 6, 1e-9);
  EXPECT_NEAR(quality.classes_in_a_batch, 1.5, 1e-9);
  EXPECT_NEAR(quality.ratio, 1.5 * 6 / 11, 1e-9);
  EXPECT_EQ(quality.batch, 2);
  // One batch of everything, though the classes that exist are fewer than those declared.
  EXPECT_EQ(shuffle_quality(Plan("x", 4, 1, 9, Order::sequential), dataset).ratio, 1);
  // The last batch is smaller: of 3 and 1 samples, with 2 + 1 of the 2.5 + 1 classes expected.
  EXPECT_NEAR(shuffle_quality(Plan("x", 4, 1, 3, Order::sequential), dataset).ratio, 3 / 3.5, 1e-9);
}

TEST(ShuffleQuality, IsSaidInWords) {
  const ShuffleQuality quality{
      .ratio = 0.3107, .classes_in_a_batch = 55.2, .classes_expected = 177.4, .batch = 256};
  EXPECT_EQ(describe_shuffle_quality(quality, "window:8"),
            "shuffle window:8: quality 0.31 (a batch of 256 holds 55 classes; a full shuffle would "
            "give 177)");
  EXPECT_EQ(describe_shuffle_quality(
                {.ratio = 0.01, .classes_in_a_batch = 1, .classes_expected = 99, .batch = 512},
                "sequential"),
            "shuffle sequential: quality 0.01 (a batch of 512 holds 1 class; a full shuffle would "
            "give 99)");
}

}  // namespace
}  // namespace tern
