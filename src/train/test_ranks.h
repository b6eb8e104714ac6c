// Ranks as threads of a test, which find each other in memory. Speaks LibTorch.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "train/collectives.h"
#include "train/rank_store.h"

namespace tern {

class ThreadRanks {
 public:
  using Body = std::function<void(int64_t rank, Collectives& group)>;

  // Runs `body` on `world` threads, each a rank of a new generation. Returns when all are through.
  void run(int64_t world, const Body& body) {
    const auto store = std::make_shared<RendezvousStore>(RendezvousStore{
        c10::make_intrusive<c10d::PrefixStore>("gen" + std::to_string(++generation_), store_)});
    over_ = std::stop_source();
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        auto group = Collectives::open({.rank = rank,
                                        .world = world,
                                        .address = "127.0.0.1",
                                        .store = store,
                                        .over = over_.get_token(),
                                        .clock = &clock_,
                                        .graveyard = &graveyard_});
        ASSERT_TRUE(group.has_value()) << group.error().to_string();
        body(rank, **group);
      });
    }
  }
  // As the supervisor does when it sees that a rank is lost.
  void end_generation() { over_.request_stop(); }

 private:
  SystemClock clock_;
  Graveyard graveyard_;
  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  std::stop_source over_;
  int generation_ = 0;
};

}  // namespace tern
