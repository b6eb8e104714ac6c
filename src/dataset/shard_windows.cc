#include "dataset/shard_windows.h"

#include <algorithm>
#include <utility>

#include "core/random.h"
#include "core/result.h"
#include "dataset/permutation.h"

namespace tern {
namespace {

// Keys of an epoch's permutations: 0 is that of the shards, 1 + w that of the samples of window w.
uint64_t epoch_key(uint64_t key, int64_t epoch, int64_t which) {
  return random_value(key, Stream::order, static_cast<uint64_t>(epoch),
                      static_cast<uint64_t>(which));
}

}  // namespace

ShardWindows::ShardWindows(const std::vector<int64_t>& shards, int64_t window, uint64_t key)
    : first_samples_{0}, window_(window), key_(key) {
  TERN_CHECK(window >= 1);
  for (const int64_t samples : shards) {
    TERN_CHECK(samples >= 0);
    if (samples > 0) first_samples_.push_back(first_samples_.back() + samples);
  }
  TERN_CHECK(first_samples_.size() > 1);
}

void ShardWindows::samples_at(int64_t epoch, int64_t begin, std::span<int64_t> samples) const {
  const std::shared_ptr<const ShardOrder> order =
      orders_.get(epoch, [&] { return order_shards(epoch); });
  for (int64_t& sample : samples) sample = sample_at(*order, epoch, begin++);
}

int64_t ShardWindows::sample_at(const ShardOrder& order, int64_t epoch, int64_t position) const {
  const std::vector<int64_t>& begins = order.begins;
  // The shard, in the epoch's order, that holds a position: the last that begins there or before.
  const auto shard_at = [&](int64_t at) {
    return std::ranges::upper_bound(begins, at) - begins.begin() - 1;
  };
  const auto shards = static_cast<int64_t>(order.first_samples.size());
  const int64_t window = shard_at(position) / window_;
  const int64_t begin = begins[static_cast<size_t>(window * window_)];
  // Not (window + 1) * window_: the product of two large numbers may not fit.
  const int64_t window_shards = std::min(window_, shards - window * window_);
  const int64_t end = begins[static_cast<size_t>(window * window_ + window_shards)];

  const Permutation mixed(end - begin, epoch_key(key_, epoch, 1 + window),
                          static_cast<uint64_t>(epoch));
  const int64_t source = begin + mixed.at(position - begin);
  const auto shard = static_cast<size_t>(shard_at(source));
  return order.first_samples[shard] + (source - begins[shard]);
}

ShardWindows::ShardOrder ShardWindows::order_shards(int64_t epoch) const {
  ShardOrder order;
  const auto shards = static_cast<int64_t>(first_samples_.size()) - 1;
  const Permutation shuffled(shards, epoch_key(key_, epoch, 0), static_cast<uint64_t>(epoch));
  order.begins.reserve(first_samples_.size());
  order.first_samples.reserve(first_samples_.size() - 1);
  order.begins.push_back(0);
  for (int64_t i = 0; i < shards; ++i) {
    const auto shard = static_cast<size_t>(shuffled.at(i));
    order.first_samples.push_back(first_samples_[shard]);
    order.begins.push_back(order.begins.back() + first_samples_[shard + 1] - first_samples_[shard]);
  }
  return order;
}

}  // namespace tern
