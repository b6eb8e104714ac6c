// A random order that is computed rather than stored.
#pragma once

#include <cstdint>
#include <vector>

namespace tern {

// A keyed permutation of [0, count): at() costs the same anywhere and takes no memory. A value;
// immutable, safe from any thread.
class Permutation {
 public:
  // REQUIRES: 0 < count < 2^63.
  Permutation(int64_t count, uint64_t key, uint64_t epoch);

  // REQUIRES: 0 <= position < count.
  int64_t at(int64_t position) const;

  // The same, ten times as fast: with what the rounds compute in a table of at most 100 KB, which
  // takes as long to make as at() for about two thousand positions does.
  using Table = std::vector<uint16_t>;
  bool can_tabulate() const;  // count is at most 16 million
  Table tabulate() const;     // REQUIRES: can_tabulate()
  int64_t at(int64_t position, const Table& table) const;

 private:
  uint32_t round_value(uint32_t round, uint64_t right) const;
  template <typename RoundValue>
  int64_t walk(int64_t position, const RoundValue& round_value) const;

  uint64_t count_;
  int half_bits_;
  uint64_t key_;
  uint64_t epoch_;
};

}  // namespace tern
