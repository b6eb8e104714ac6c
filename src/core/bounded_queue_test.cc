#include "core/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace tern {
namespace {

std::stop_token stopped() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

TEST(BoundedQueue, ComesOutInTheOrderItWentIn) {
  BoundedQueue<int> queue(3);
  std::vector<int> taken;
  std::jthread producer([&](std::stop_token stop) {
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.push(i, stop));
    queue.close();
  });
  while (const auto item = queue.pop({})) taken.push_back(*item);
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(taken, expected);
}

TEST(BoundedQueue, NeverHoldsMoreThanItsLimit) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.push(1, {}));
  EXPECT_TRUE(queue.push(2, {}));
  EXPECT_FALSE(queue.push(3, stopped())) << "a push that may not wait must give up when full";
  EXPECT_EQ(queue.size(), 2u);

  // With producers always waiting, the consumer never sees more than the limit.
  std::vector<std::jthread> producers;
  for (int p = 0; p < 3; ++p) {
    producers.emplace_back([&](std::stop_token stop) {
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(queue.push(i, stop));
    });
  }
  for (int taken = 0; taken < 2 + 3 * 200; ++taken) {
    EXPECT_LE(queue.size(), 2u);
    ASSERT_TRUE(queue.pop({}).has_value());
  }
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, AStopWakesAWaitingPush) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1, {}));
  bool pushed = true;
  {
    std::jthread producer([&](std::stop_token stop) { pushed = queue.push(2, stop); });
  }
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.size(), 1u);
}

TEST(BoundedQueue, AStopWakesAWaitingPop) {
  BoundedQueue<int> queue(1);
  std::optional<int> popped = 0;
  {
    std::jthread consumer([&](std::stop_token stop) { popped = queue.pop(stop); });
  }
  EXPECT_FALSE(popped.has_value());
}

TEST(BoundedQueue, CloseWakesEverybodyWaiting) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  ASSERT_TRUE(full.push(1, {}));
  std::atomic<int> gave_up = 0;
  {
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&] { gave_up += full.push(2, {}) ? 0 : 1; });
      waiters.emplace_back([&] { gave_up += empty.pop({}).has_value() ? 0 : 1; });
    }
    full.close();
    empty.close();
  }
  EXPECT_EQ(gave_up, 6);
}

TEST(BoundedQueue, WhatIsInsideCanBePoppedAfterClose) {
  BoundedQueue<std::unique_ptr<int>> queue(4);
  ASSERT_TRUE(queue.push(std::make_unique<int>(1), {}));
  ASSERT_TRUE(queue.push(std::make_unique<int>(2), {}));
  queue.close();
  EXPECT_FALSE(queue.push(std::make_unique<int>(3), {}));
  EXPECT_EQ(**queue.pop({}), 1);
  EXPECT_EQ(**queue.pop({}), 2);
  EXPECT_FALSE(queue.pop({}).has_value());
}

TEST(BoundedQueue, ManyProducersAndConsumersLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  BoundedQueue<int> queue(5);
  std::vector<std::vector<int>> taken(kThreads);
  {
    std::vector<std::jthread> consumers;
    for (int c = 0; c < kThreads; ++c) {
      consumers.emplace_back([&queue, &mine = taken[static_cast<size_t>(c)]] {
        while (const auto item = queue.pop({})) mine.push_back(*item);
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int p = 0; p < kThreads; ++p) {
        producers.emplace_back([&queue, p] {
          for (int i = 0; i < kEach; ++i) ASSERT_TRUE(queue.push(p * kEach + i, {}));
        });
      }
    }
    queue.close();
  }
  std::vector<int> times_seen(kThreads * kEach);
  for (const std::vector<int>& of_one : taken) {
    for (const int item : of_one) ++times_seen[static_cast<size_t>(item)];
  }
  EXPECT_EQ(times_seen, std::vector<int>(kThreads * kEach, 1));
}

}  // namespace
}  // namespace tern
