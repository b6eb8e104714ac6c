// The plan: which sample stands at position p of epoch e. A pure function of (dataset id, seed,
// epoch) and, for a windowed shuffle, of how samples lie in shards: no world size, thread or clock
// is in it, so a resume is a seek.
//
// Batch b of an epoch is positions [b*G, min((b+1)*G, N)) for the global batch G; ranks take shares
// of it. The last batch of an epoch is smaller when G does not divide N: no sample is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "dataset/permutation.h"
#include "dataset/recent_epochs.h"

namespace tern {

class ShardWindows;

// Half-open range of positions in an epoch.
struct PositionRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const PositionRange&) const = default;
};

enum class Order { shuffled, sequential, windowed };

// How samples are mixed. windowed: the shards are put in random order, and the samples of each
// `window` shards in a row are mixed with each other.
struct Shuffle {
  Order order = Order::shuffled;
  int64_t window = 0;  // windowed: shards, at least 1

  bool operator==(const Shuffle&) const = default;
};
// "full", "window:W", "sequential". `invalid` lists them.
Result<Shuffle> parse_shuffle(std::string_view text);
// The text that gives it.
std::string shuffle_text(const Shuffle& shuffle);

// A value; cheap to copy, safe from any thread. Copies share what is remembered of an epoch, which
// changes nothing that can be seen.
class Plan {
 public:
  // `shards` are Dataset::shards(), for a windowed shuffle; others ignore it, and none means that
  // all samples are in one. REQUIRES: samples > 0, global_batch > 0; shards add up to samples.
  Plan(std::string dataset_id, int64_t samples, uint64_t seed, int64_t global_batch,
       Shuffle shuffle, std::vector<int64_t> shards = {});
  Plan(std::string dataset_id, int64_t samples, uint64_t seed, int64_t global_batch, Order order)
      : Plan(std::move(dataset_id), samples, seed, global_batch, Shuffle{.order = order}) {}

  // The same batches, but in every epoch of order[0], order[1], ...
  // REQUIRES: `order` is a permutation of the samples.
  Plan with_order(std::shared_ptr<const std::vector<int64_t>> order) const;

  int64_t samples() const { return samples_; }
  const Shuffle& shuffle() const { return shuffle_; }
  int64_t global_batch() const { return global_batch_; }
  int64_t batches_per_epoch() const;

  // REQUIRES: epoch >= 0, 0 <= position < samples(). Seeking costs nothing, but that a windowed
  // order is computed once for an epoch, shard by shard.
  int64_t sample_at(int64_t epoch, int64_t position) const;
  // Those at positions [begin, begin + samples.size()): far faster for many of one epoch, and
  // threads that ask for many at once do not wait for each other.
  void samples_at(int64_t epoch, int64_t begin, std::span<int64_t> samples) const;

  // Positions of batch `batch` of an epoch. REQUIRES: 0 <= batch < batches_per_epoch().
  PositionRange batch(int64_t batch) const;
  // The part of that batch that `rank` of `world` trains on. Shares are contiguous, in rank order,
  // differ by at most one and may be empty.
  PositionRange share(int64_t batch, int64_t rank, int64_t world) const;

 private:
  int64_t samples_;
  int64_t global_batch_;
  Shuffle shuffle_;
  uint64_t key_;                                              // of (dataset id, seed)
  std::shared_ptr<RecentEpochs<Permutation::Table>> tables_;  // shuffled only
  std::shared_ptr<const ShardWindows> windows_;               // windowed only
  std::shared_ptr<const std::vector<int64_t>> given_;         // with_order() only
};

}  // namespace tern
