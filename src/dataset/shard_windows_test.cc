#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "dataset/plan.h"

namespace tern {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<int64_t>;

constexpr char kId[] = "18d9640dda2a7d287223be5714484cbc095c3178d382c925f83e18b778400c94";

int64_t sum(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

Plan windowed(const Numbers& shards, int64_t window, uint64_t seed = 1) {
  return Plan(kId, sum(shards), seed, /*global_batch=*/4,
              Shuffle{.order = Order::windowed, .window = window}, shards);
}

Numbers order_of(const Plan& plan, int64_t epoch) {
  Numbers order(static_cast<size_t>(plan.samples()), -1);
  plan.samples_at(epoch, 0, order);
  return order;
}

Numbers counting_up(int64_t samples) {
  Numbers order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Which shard each sample lies in.
Numbers shards_of(const Numbers& shards) {
  Numbers of;
  for (size_t i = 0; i < shards.size(); ++i) {
    of.insert(of.end(), static_cast<size_t>(shards[i]), static_cast<int64_t>(i));
  }
  return of;
}

TEST(WindowedPlan, EveryEpochIsAPermutation) {
  const std::vector<Numbers> sizes = {
      {1},          {7},         {100, 100, 100, 100, 100},      {1, 1000, 2, 3, 500, 1},
      {0, 5, 0, 0}, {3, 0, 4},   {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 5, 5, 5, 5, 5, 2},
      {2, 2, 2},    {997, 1, 1},
  };
  for (const Numbers& shards : sizes) {
    for (const int64_t window : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{8}, INT64_MAX}) {
      const Plan plan = windowed(shards, window);
      for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 40}) {
        Numbers order = order_of(plan, epoch);
        std::ranges::sort(order);
        EXPECT_EQ(order, counting_up(plan.samples())) << "window " << window << " epoch " << epoch;
      }
    }
  }
}

TEST(WindowedPlan, SamplesOfAWindowAreThoseOfSoManyShards) {
  const Numbers shards(12, 50);
  const Numbers shard_of = shards_of(shards);
  const Plan plan = windowed(shards, 3);
  const Numbers order = order_of(plan, 0);
  std::set<int64_t> all;
  for (size_t window = 0; window < 4; ++window) {
    std::set<int64_t> seen;
    int64_t changes = 0;
    for (size_t p = window * 150; p < (window + 1) * 150; ++p) {
      seen.insert(shard_of[static_cast<size_t>(order[p])]);
      if (p > 0)
        changes +=
            shard_of[static_cast<size_t>(order[p])] != shard_of[static_cast<size_t>(order[p - 1])];
    }
    EXPECT_EQ(seen.size(), 3u);
    EXPECT_GT(changes, 70);  // two of three neighbours lie in different shards, so about 100
    all.insert(seen.begin(), seen.end());
  }
  EXPECT_EQ(all.size(), 12u);
}

TEST(WindowedPlan, EpochSeedAndWindowEachChangeTheOrder) {
  const Numbers shards(20, 10);
  std::set<Numbers> orders;
  for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 32}) {
    for (const uint64_t seed : {0, 1}) {
      for (const int64_t window : {1, 2, 20}) {
        orders.insert(order_of(windowed(shards, window, seed), epoch));
      }
    }
  }
  EXPECT_EQ(orders.size(), 3u * 2u * 3u);
}

// A resumed run must see what the interrupted one would have: these values may never change.
TEST(WindowedPlan, OrdersArePinned) {
  const Plan plan = windowed({3, 4, 2, 3}, 2);
  EXPECT_EQ(order_of(plan, 0), (Numbers{7, 8, 2, 1, 0, 4, 5, 10, 11, 3, 6, 9}));
  EXPECT_EQ(order_of(plan, 1), (Numbers{2, 3, 0, 1, 6, 5, 4, 7, 11, 10, 8, 9}));
  const Plan large = windowed(Numbers(2000, 640), 8, 42);
  EXPECT_EQ(large.sample_at(0, 0), 792'002);
  EXPECT_EQ(large.sample_at(7, 1'000'000), 545'644);
}

TEST(WindowedPlan, SeekingGivesWhatWalkingGives) {
  const Numbers shards = {10, 20, 5, 1, 30, 7};
  const Plan walked = windowed(shards, 2);
  std::vector<Numbers> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) orders.push_back(order_of(walked, epoch));
  // Epochs in an order that leaves neither of the remembered ones in place.
  for (const int64_t epoch : {4, 0, 3, 1, 2, 0}) {
    for (const int64_t position : {72, 0, 35}) {
      EXPECT_EQ(walked.sample_at(epoch, position),
                orders[static_cast<size_t>(epoch)][static_cast<size_t>(position)]);
      EXPECT_EQ(windowed(shards, 2).sample_at(epoch, position), walked.sample_at(epoch, position));
    }
  }
}

TEST(WindowedPlan, ThreadsThatAreInDifferentEpochsSeeTheSameOrders) {
  const Numbers shards(40, 9);
  const Plan plan = windowed(shards, 4);
  std::vector<Numbers> expected;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    expected.push_back(order_of(windowed(shards, 4), epoch));
  }
  std::vector<Numbers> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t, copy = plan] {
        for (int64_t i = 0; i < 6; ++i) {
          const int64_t epoch = (i + static_cast<int64_t>(t)) % 6;
          if (order_of(copy, epoch) != expected[static_cast<size_t>(epoch)]) {
            wrong[t].push_back(epoch);
          }
        }
      });
    }
  }
  for (const Numbers& epochs : wrong) EXPECT_TRUE(epochs.empty());
}

TEST(WindowedPlan, WithoutShardsAllSamplesAreInOne) {
  const Shuffle shuffle{.order = Order::windowed, .window = 3};
  EXPECT_EQ(order_of(Plan(kId, 50, 1, 4, shuffle), 0),
            order_of(Plan(kId, 50, 1, 4, shuffle, {50}), 0));
}

TEST(GivenPlan, OrderIsTheGivenOneInEveryEpoch) {
  const auto order = std::make_shared<const Numbers>(Numbers{3, 1, 4, 0, 2});
  const Plan plan = Plan(kId, 5, 1, 2, Order::sequential).with_order(order);
  EXPECT_EQ(order_of(plan, 0), *order);
  EXPECT_EQ(order_of(plan, 9), *order);
  EXPECT_EQ(plan.batch(2), (PositionRange{4, 5}));
}

TEST(Shuffle, TextsAreParsedAndGivenBack) {
  EXPECT_EQ(parse_shuffle("full").value(), (Shuffle{.order = Order::shuffled}));
  EXPECT_EQ(parse_shuffle("sequential").value(), (Shuffle{.order = Order::sequential}));
  EXPECT_EQ(parse_shuffle("window:1").value(), (Shuffle{.order = Order::windowed, .window = 1}));
  EXPECT_EQ(parse_shuffle("window:64").value(), (Shuffle{.order = Order::windowed, .window = 64}));
  for (const char* text : {"full", "sequential", "window:8"}) {
    EXPECT_EQ(shuffle_text(parse_shuffle(text).value()), text);
  }
}

TEST(Shuffle, OtherTextsAreRefused) {
  for (const char* text : {"", "Full", "window", "window:", "window:0", "window:-1", "window: 8",
                           "window:8 ", "window:8x", "window:+8", "window:99999999999999999999"}) {
    const Result<Shuffle> shuffle = parse_shuffle(text);
    ASSERT_FALSE(shuffle) << text;
    EXPECT_EQ(shuffle.error().code, Code::invalid);
    EXPECT_THAT(shuffle.error().message, HasSubstr("use full, window:W"));
  }
}

}  // namespace
}  // namespace tern
