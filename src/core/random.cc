#include "core/random.h"

#include "core/result.h"

namespace tern {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// Folds (seed, stream, a, b) into a key and the upper three counter words; the lowest word counts
// blocks. A whole Philox, keyed by the seed, mixes (a, b), so that neighbouring positions share
// nothing; the stream stays a counter word of its own, so that two streams never meet.
struct Origin {
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> counter;
};

Origin origin_of(uint64_t seed, Stream stream, uint64_t a, uint64_t b) {
  const auto mixed = philox4x32({low(a), high(a), low(b), high(b)}, {low(seed), high(seed)});
  const uint32_t s = static_cast<uint32_t>(stream);
  return {{mixed[0] ^ s, mixed[1]}, {0, mixed[2], mixed[3], s}};
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t random_value(uint64_t seed, Stream stream, uint64_t a, uint64_t b) {
  Random random(seed, stream, a, b);
  const uint64_t first = random.next();
  return (first << 32) | random.next();
}

Random::Random(uint64_t seed, Stream stream, uint64_t a, uint64_t b) {
  const Origin origin = origin_of(seed, stream, a, b);
  key_ = origin.key;
  counter_ = origin.counter;
}

uint32_t Random::next() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint32_t Random::below(uint32_t bound) {
  TERN_CHECK(bound > 0);
  // Lemire's method: the high half of a product is uniform once the few low values that would be
  // counted once too often are refused.
  uint64_t product = uint64_t{next()} * bound;
  if (low(product) < bound) {
    const uint32_t refused = (0u - bound) % bound;
    while (low(product) < refused) product = uint64_t{next()} * bound;
  }
  return high(product);
}

float Random::uniform() { return static_cast<float>(next() >> 8) * 0x1.0p-24f; }

}  // namespace tern
