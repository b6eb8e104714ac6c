// The plan: which sample stands at position p of epoch e. A pure function of (dataset id, seed,
// epoch): no world size, thread, clock or cache is in it, so a resume is a seek.
//
// Batch b of an epoch is positions [b*G, min((b+1)*G, N)) for the global batch G; ranks take shares
// of it. The last batch of an epoch is smaller when G does not divide N: no sample is lost.
#pragma once

#include <cstdint>
#include <string>

namespace tern {

// Half-open range of positions in an epoch.
struct PositionRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const PositionRange&) const = default;
};

enum class Order { shuffled, sequential };

// A value; cheap to copy, immutable, safe from any thread.
class Plan {
 public:
  // REQUIRES: samples > 0, global_batch > 0.
  Plan(std::string dataset_id, int64_t samples, uint64_t seed, int64_t global_batch, Order order);

  int64_t samples() const { return samples_; }
  int64_t global_batch() const { return global_batch_; }
  int64_t batches_per_epoch() const;

  // REQUIRES: epoch >= 0, 0 <= position < samples(). O(1): seeking costs nothing.
  int64_t sample_at(int64_t epoch, int64_t position) const;

  // Positions of batch `batch` of an epoch. REQUIRES: 0 <= batch < batches_per_epoch().
  PositionRange batch(int64_t batch) const;
  // The part of that batch that `rank` of `world` trains on. Shares are contiguous, in rank order,
  // differ by at most one and may be empty.
  PositionRange share(int64_t batch, int64_t rank, int64_t world) const;

 private:
  int64_t samples_;
  int64_t global_batch_;
  Order order_;
  uint64_t key_;  // of (dataset id, seed)
};

}  // namespace tern
