#include "dataset/permutation.h"

#include <bit>
#include <utility>

#include "core/random.h"
#include "core/result.h"

namespace tern {
namespace {

// Four would do for large data sets. Tiny ones need more, because their round functions have one or
// two bits: with 12 every order of 2, 3 or 4 samples is within 0.1 % of equally likely (with 8, 1.6
// %).
constexpr int kRounds = 12;
constexpr int kTableHalfBitsMax = 12;

constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

// The domain is the smallest even number of bits that counts to count - 1.
Permutation::Permutation(int64_t count, uint64_t key, uint64_t epoch)
    : count_(static_cast<uint64_t>(count)),
      half_bits_((static_cast<int>(std::bit_width(count_ - 1)) + 1) / 2),
      key_(key),
      epoch_(epoch) {
  TERN_CHECK(count > 0);
}

uint32_t Permutation::round_value(uint32_t round, uint64_t right) const {
  return philox4x32({low(right), round, low(epoch_), high(epoch_)}, {low(key_), high(key_)})[0];
}

// A Feistel network, a keyed bijection on [0, 2^(2 * half_bits)): each round exchanges the halves
// and mixes one into the other, which can be undone whatever the mixing function is. Then cycle
// walking: a value outside [0, count) is permuted again. The walk comes back inside, because it
// follows a cycle that began inside; the domain is at most four times too large, so it takes four
// steps at most on average.
template <typename RoundValue>
int64_t Permutation::walk(int64_t position, const RoundValue& mixed) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(position);
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      left = std::exchange(right, left ^ (mixed(round, right) & mask));
    }
    value = left << half_bits_ | right;
  } while (value >= count_);
  return static_cast<int64_t>(value);
}

int64_t Permutation::at(int64_t position) const {
  if (count_ == 1) return 0;
  return walk(position,
              [this](uint32_t round, uint64_t right) { return round_value(round, right); });
}

bool Permutation::can_tabulate() const { return half_bits_ <= kTableHalfBitsMax; }

Permutation::Table Permutation::tabulate() const {
  TERN_CHECK(can_tabulate());
  Table table;
  const uint64_t halves = uint64_t{1} << half_bits_;
  table.reserve(kRounds * halves);
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (uint64_t right = 0; right < halves; ++right) {
      table.push_back(static_cast<uint16_t>(round_value(round, right)));
    }
  }
  return table;
}

int64_t Permutation::at(int64_t position, const Table& table) const {
  if (count_ == 1) return 0;
  return walk(position, [&](uint32_t round, uint64_t right) -> uint64_t {
    return table[(uint64_t{round} << half_bits_) + right];
  });
}

}  // namespace tern
