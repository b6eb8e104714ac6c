#include "dataset/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace tern {
namespace {

constexpr char kId[] = "18d9640dda2a7d287223be5714484cbc095c3178d382c925f83e18b778400c94";

Plan shuffled(int64_t samples, uint64_t seed = 1, const char* id = kId) {
  return Plan(id, samples, seed, /*global_batch=*/4, Order::shuffled);
}

std::vector<int64_t> order_of(const Plan& plan, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t p = 0; p < plan.samples(); ++p) order.push_back(plan.sample_at(epoch, p));
  return order;
}

std::vector<int64_t> counting_up(int64_t samples) {
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Chi-square of observed counts against equal ones. Its mean is (counts - 1), its deviation
// sqrt(2 * (counts - 1)); five deviations above the mean happens by chance once in ten thousand
// keys or less, and the keys here are fixed, so a test never fails by chance.
void expect_uniform(const std::vector<int64_t>& counts) {
  const double total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{}));
  const double expected = total / static_cast<double>(counts.size());
  double chi_square = 0;
  for (int64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    chi_square += difference * difference / expected;
  }
  const double freedom = static_cast<double>(counts.size() - 1);
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom));
}

TEST(Plan, EveryEpochIsAPermutation) {
  for (const int64_t samples : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 65, 100, 1000, 60'000}) {
    for (const int64_t epoch :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{99}, int64_t{1} << 40}) {
      std::vector<int64_t> order = order_of(shuffled(samples), epoch);
      std::ranges::sort(order);
      EXPECT_EQ(order, counting_up(samples)) << samples << " samples, epoch " << epoch;
    }
  }
}

TEST(Plan, SequentialOrderIsPositions) {
  const Plan plan(kId, 100, 1, 7, Order::sequential);
  EXPECT_EQ(order_of(plan, 0), counting_up(100));
  EXPECT_EQ(order_of(plan, 5), counting_up(100));
}

TEST(Plan, EpochSeedAndDatasetIdEachChangeTheOrder) {
  std::set<std::vector<int64_t>> orders;
  for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 32}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
      for (const char* id : {kId, "another"}) {
        orders.insert(order_of(shuffled(100, seed, id), epoch));
      }
    }
  }
  EXPECT_EQ(orders.size(), 3u * 3u * 2u);
  EXPECT_FALSE(orders.contains(counting_up(100)));
}

TEST(Plan, TheBatchSizeDoesNotChangeTheOrder) {
  const Plan small(kId, 1000, 1, 1, Order::shuffled);
  const Plan large(kId, 1000, 1, 512, Order::shuffled);
  EXPECT_EQ(order_of(small, 3), order_of(large, 3));
}

// A resumed run must see what the interrupted one would have: these values may never change.
TEST(Plan, OrdersArePinned) {
  const std::vector<int64_t> epoch_0 = {7, 1, 6, 9, 3, 2, 8, 4, 0, 5};
  const std::vector<int64_t> epoch_1 = {4, 7, 0, 3, 1, 8, 2, 5, 9, 6};
  EXPECT_EQ(order_of(shuffled(10), 0), epoch_0);
  EXPECT_EQ(order_of(shuffled(10), 1), epoch_1);
  const Plan plan = shuffled(60'000, 42);
  EXPECT_EQ(plan.sample_at(0, 0), 35'879);
  EXPECT_EQ(plan.sample_at(0, 59'999), 4690);
  EXPECT_EQ(plan.sample_at(7, 12'345), 26'504);
  EXPECT_EQ(plan.sample_at(int64_t{1} << 33, 12'345), 43'001);
  EXPECT_EQ(shuffled(int64_t{1} << 40, 42).sample_at(3, 5), 254'880'535'965);
}

TEST(Plan, ManySamplesAtOnceAreThoseOneByOne) {
  for (const int64_t samples : {int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{1} << 24,
                                (int64_t{1} << 24) + 1, int64_t{1} << 40}) {
    for (const Order order : {Order::shuffled, Order::sequential}) {
      const Plan plan(kId, samples, 5, 4, order);
      const auto count = std::min(samples, int64_t{100});
      for (const int64_t begin : {int64_t{0}, samples - count}) {
        std::vector<int64_t> many(static_cast<size_t>(count), -1);
        plan.samples_at(3, begin, many);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(many[static_cast<size_t>(i)], plan.sample_at(3, begin + i));
        }
      }
      plan.samples_at(0, samples, {});
    }
  }
}

TEST(Plan, WorksForTheLargestNumberOfSamples) {
  const int64_t samples = std::numeric_limits<int64_t>::max();
  const Plan plan(kId, samples, 1, samples, Order::shuffled);
  std::set<int64_t> seen;
  for (int64_t p = 0; p < 100; ++p) {
    const int64_t sample = plan.sample_at(0, samples - 1 - p);
    EXPECT_TRUE(sample >= 0 && sample < samples);
    seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(plan.batches_per_epoch(), 1);
  EXPECT_EQ(plan.batch(0), (PositionRange{0, samples}));
}

TEST(Plan, AllOrdersOfAFewSamplesAreEquallyLikely) {
  for (const int64_t samples : {2, 3, 4}) {
    std::map<std::vector<int64_t>, int64_t> seen;
    const Plan plan = shuffled(samples);
    for (int64_t epoch = 0; epoch < 6000; ++epoch) ++seen[order_of(plan, epoch)];
    std::vector<int64_t> counts;
    for (const auto& [order, count] : seen) counts.push_back(count);
    EXPECT_EQ(counts.size(), samples == 2 ? 2u : samples == 3 ? 6u : 24u);
    expect_uniform(counts);
  }
}

TEST(Plan, EverySampleIsEquallyLikelyAtEveryPosition) {
  const Plan plan = shuffled(10);
  std::vector<int64_t> counts(100);
  for (int64_t epoch = 0; epoch < 5000; ++epoch) {
    for (int64_t p = 0; p < 10; ++p) {
      ++counts[static_cast<size_t>(10 * p + plan.sample_at(epoch, p))];
    }
  }
  expect_uniform(counts);
}

TEST(Plan, PositionOfOneSampleIsUniformOverEpochs) {
  const Plan plan = shuffled(1000);
  std::vector<int64_t> counts(20);
  for (int64_t epoch = 0; epoch < 2000; ++epoch) {
    const std::vector<int64_t> order = order_of(plan, epoch);
    const auto position = std::ranges::find(order, 0) - order.begin();
    ++counts[static_cast<size_t>(position / 50)];
  }
  expect_uniform(counts);
}

TEST(Plan, OrderedPairsOfSamplesAreEquallyLikelyAtTheFirstTwoPositions) {
  const Plan plan = shuffled(9);
  std::map<std::pair<int64_t, int64_t>, int64_t> seen;
  for (int64_t epoch = 0; epoch < 7200; ++epoch) {
    ++seen[{plan.sample_at(epoch, 0), plan.sample_at(epoch, 1)}];
  }
  std::vector<int64_t> counts;
  for (const auto& [pair, count] : seen) counts.push_back(count);
  EXPECT_EQ(counts.size(), 72u);
  expect_uniform(counts);
}

TEST(Plan, SamplesMoveFarAndNeighboursPart) {
  constexpr int64_t kSamples = 60'000;
  const std::vector<int64_t> order = order_of(shuffled(kSamples), 0);
  double displacement = 0;
  int neighbours = 0;
  for (int64_t p = 0; p < kSamples; ++p) {
    const int64_t sample = order[static_cast<size_t>(p)];
    displacement += static_cast<double>(std::abs(sample - p)) / kSamples;
    if (p > 0 && std::abs(sample - order[static_cast<size_t>(p - 1)]) == 1) ++neighbours;
  }
  // For a uniform permutation: a third of the length on average, and two neighbouring pairs.
  EXPECT_NEAR(displacement / kSamples, 1.0 / 3, 0.005);
  EXPECT_LT(neighbours, 12);
}

TEST(Plan, EpochsAreUnrelated) {
  constexpr int64_t kSamples = 60'000;
  const Plan plan = shuffled(kSamples);
  int fixed = 0;
  for (int64_t p = 0; p < kSamples; ++p) fixed += plan.sample_at(4, p) == plan.sample_at(5, p);
  EXPECT_LT(fixed, 12);  // one on average
}

TEST(Plan, BatchesTileTheEpoch) {
  for (const int64_t samples : {1, 2, 10, 99, 100, 101}) {
    for (const int64_t global_batch : {1, 3, 10, 100, 1000}) {
      const Plan plan(kId, samples, 1, global_batch, Order::shuffled);
      int64_t position = 0;
      for (int64_t b = 0; b < plan.batches_per_epoch(); ++b) {
        const PositionRange batch = plan.batch(b);
        EXPECT_EQ(batch.begin, position);
        EXPECT_EQ(batch.size(), std::min(global_batch, samples - position));
        EXPECT_GT(batch.size(), 0);
        position = batch.end;
      }
      EXPECT_EQ(position, samples);
    }
  }
}

TEST(Plan, SharesConcatenateToTheBatchForEveryWorld) {
  const Plan plan(kId, 1003, 1, 10, Order::shuffled);
  for (const int64_t world : {1, 2, 3, 5, 8, 16}) {
    for (int64_t b = 0; b < plan.batches_per_epoch(); ++b) {
      const PositionRange whole = plan.batch(b);
      int64_t position = whole.begin;
      for (int64_t rank = 0; rank < world; ++rank) {
        const PositionRange share = plan.share(b, rank, world);
        EXPECT_EQ(share.begin, position);
        EXPECT_GE(share.size(), whole.size() / world);
        EXPECT_LE(share.size(), (whole.size() + world - 1) / world);
        position = share.end;
      }
      EXPECT_EQ(position, whole.end);
    }
  }
}

}  // namespace
}  // namespace tern
