// The windowed order of samples: shards in random order, the samples of a few shards in a row
// mixed. A reader then touches few files at a time and reads each of them once in an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataset/recent_epochs.h"

namespace tern {

// The order is a pure function of the constructor's arguments and the epoch. What is computed for
// an epoch (the order of the shards and where each begins: 16 bytes a shard) is kept for the last
// two. Shared by the copies of a Plan; safe from any thread; nothing fails. The first call of an
// epoch takes about half a microsecond for each shard.
class ShardWindows {
 public:
  // `shards` are numbers of consecutive samples. REQUIRES: none is negative; the sum is at least 1;
  // window >= 1.
  ShardWindows(const std::vector<int64_t>& shards, int64_t window, uint64_t key);

  // Writes the samples at positions `begin` and following. REQUIRES: epoch >= 0; the positions lie
  // within [0, the sum of the shards).
  void samples_at(int64_t epoch, int64_t begin, std::span<int64_t> samples) const;

 private:
  // The shards in the order of one epoch.
  struct ShardOrder {
    std::vector<int64_t> begins;         // position at which each begins; one more for the end
    std::vector<int64_t> first_samples;  // of each
  };
  ShardOrder order_shards(int64_t epoch) const;
  int64_t sample_at(const ShardOrder& order, int64_t epoch, int64_t position) const;

  // Constant after construction.
  std::vector<int64_t> first_samples_;  // of each shard that is not empty; one more for the end
  int64_t window_;
  uint64_t key_;

  // Synchronises itself.
  mutable RecentEpochs<ShardOrder> orders_;
};

}  // namespace tern
