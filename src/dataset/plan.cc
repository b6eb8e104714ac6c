#include "dataset/plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/hash.h"
#include "core/random.h"
#include "core/result.h"

namespace tern {
namespace {

// Four would do for large data sets. Tiny ones need more, because their round functions have one or
// two bits: with 12 every order of 2, 3 or 4 samples is within 0.1 % of equally likely (with 8, 1.6
// %).
constexpr int kRounds = 12;

constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

uint64_t order_key(const std::string& dataset_id, uint64_t seed) {
  Sha256 hash;
  hash.update_field(dataset_id);
  hash.update_number(seed);
  hash.update_number(static_cast<uint64_t>(Stream::order));
  const Digest digest = hash.finish();
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i) key |= uint64_t{digest[i]} << (8 * i);
  return key;
}

// A keyed bijection on [0, 2^(2 * half_bits)): each round exchanges the halves and mixes one into
// the other, which can be undone whatever the mixing function is.
struct Feistel {
  int half_bits;
  uint64_t key;
  uint64_t epoch;

  uint64_t permute(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t mixed =
          philox4x32({low(right), round, low(epoch), high(epoch)}, {low(key), high(key)})[0];
      left = std::exchange(right, left ^ (mixed & mask));
    }
    return left << half_bits | right;
  }
};

}  // namespace

Plan::Plan(std::string dataset_id, int64_t samples, uint64_t seed, int64_t global_batch,
           Order order)
    : samples_(samples),
      global_batch_(global_batch),
      order_(order),
      key_(order_key(dataset_id, seed)) {
  TERN_CHECK(samples > 0);
  TERN_CHECK(global_batch > 0);
}

int64_t Plan::batches_per_epoch() const { return (samples_ - 1) / global_batch_ + 1; }

int64_t Plan::sample_at(int64_t epoch, int64_t position) const {
  TERN_CHECK(epoch >= 0);
  TERN_CHECK(position >= 0 && position < samples_);
  if (order_ == Order::sequential || samples_ == 1) return position;
  // The smallest even number of bits that counts to samples - 1.
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(samples_ - 1)));
  const Feistel feistel{(bits + 1) / 2, key_, static_cast<uint64_t>(epoch)};
  // Cycle walking: a value outside [0, samples) is permuted again. The walk comes back inside,
  // because it follows a cycle that began inside; the domain is at most four times too large, so it
  // takes four steps at most on average.
  auto value = static_cast<uint64_t>(position);
  do {
    value = feistel.permute(value);
  } while (value >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(value);
}

PositionRange Plan::batch(int64_t batch) const {
  TERN_CHECK(batch >= 0 && batch < batches_per_epoch());
  const int64_t begin = batch * global_batch_;
  return {begin, begin + std::min(global_batch_, samples_ - begin)};
}

PositionRange Plan::share(int64_t batch, int64_t rank, int64_t world) const {
  TERN_CHECK(world > 0);
  TERN_CHECK(rank >= 0 && rank < world);
  const PositionRange whole = this->batch(batch);
  // Spreads the remainder over the ranks without multiplying the batch by the world.
  const int64_t each = whole.size() / world;
  const int64_t larger = whole.size() % world;  // the first ranks take one more
  const int64_t begin = whole.begin + rank * each + std::min(rank, larger);
  return {begin, begin + each + (rank < larger ? 1 : 0)};
}

}  // namespace tern
