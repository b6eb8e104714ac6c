#include "core/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tern {
namespace {

using Block = std::array<uint32_t, 4>;

// Sum over cells of (seen - expected)^2 / expected.
double chi_square(const std::vector<int>& seen, double expected) {
  double sum = 0;
  for (const int count : seen) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// From Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Seeds have a meaning: a checkpoint of last year must draw the same numbers today. If this test
// fails, old runs no longer resume to the bit; restore the mapping.
TEST(Random, TheMappingIsPinned) {
  EXPECT_EQ(random_value(1, Stream::order, 0), 5276367760815874461u);
  EXPECT_EQ(random_value(42, Stream::augment, 3, 1000), 2466835353406734892u);
  EXPECT_EQ(random_value(~uint64_t{0}, Stream::step, uint64_t{1} << 40, uint64_t{1} << 50),
            5706276078507928417u);
  Random random(1, Stream::order, 0);
  std::vector<uint32_t> drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(random.below(1000));
  EXPECT_EQ(drawn, (std::vector<uint32_t>{286, 905, 513, 476, 504, 682}));
  EXPECT_EQ(static_cast<int>(random.uniform() * 0x1.0p24f), 8751850);
  EXPECT_EQ(static_cast<uint32_t>(Stream::order), 1u);
  EXPECT_EQ(static_cast<uint32_t>(Stream::augment), 2u);
  EXPECT_EQ(static_cast<uint32_t>(Stream::init), 3u);
  EXPECT_EQ(static_cast<uint32_t>(Stream::step), 4u);
}

TEST(Random, TheSameNameGivesTheSameNumbers) {
  Random a(7, Stream::augment, 2, 99);
  Random b(7, Stream::augment, 2, 99);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(a.next(), b.next()) << "number " << i;
}

TEST(Random, ASequenceWalksThroughBlocksWithoutRepeating) {
  Random random(7, Stream::augment, 2, 99);
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.next());
  EXPECT_GE(seen.size(), 999u);  // two of 1000 may meet by chance: one time in 8,600
}

TEST(Random, EveryPartOfTheNameMatters) {
  std::set<uint64_t> values;
  size_t made = 0;
  const uint64_t steps[] = {0, 1, 2, uint64_t{1} << 32, uint64_t{1} << 63};
  for (const uint64_t seed : steps) {
    for (const Stream stream : {Stream::order, Stream::augment, Stream::init, Stream::step}) {
      for (const uint64_t a : steps) {
        for (const uint64_t b : steps) {
          values.insert(random_value(seed, stream, a, b));
          ++made;
        }
      }
    }
  }
  EXPECT_EQ(values.size(), made);
}

TEST(Random, BelowStaysBelow) {
  Random random(3, Stream::init, 0);
  for (const uint32_t bound : {1u, 2u, 3u, 9u, 1000u, 0x80000001u, 0xffffffffu}) {
    for (int i = 0; i < 200; ++i) ASSERT_LT(random.below(bound), bound);
  }
}

TEST(Random, BelowHasNoBias) {
  constexpr int kDraws = 70'000;
  Random random(11, Stream::order, 5);
  std::vector<int> seen(7);
  for (int i = 0; i < kDraws; ++i) ++seen[random.below(7)];
  // 22.5 is passed by chance one time in a thousand at 6 degrees of freedom; the seed is fixed.
  EXPECT_LT(chi_square(seen, kDraws / 7.0), 22.5);
}

// At 3 * 2^30 a plain product or modulo would draw some numbers twice as often as others: thirds
// would get 1/4, 1/2, 1/4 or the like.
TEST(Random, BelowRefusesTheSurplusOfALargeBound) {
  constexpr uint32_t kBound = 0xC0000000;
  constexpr int kDraws = 30'000;
  Random random(11, Stream::order, 6);
  std::vector<int> by_third(3);
  std::vector<int> by_remainder(3);
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t drawn = random.below(kBound);
    ++by_third[drawn / (kBound / 3)];
    ++by_remainder[drawn % 3];
  }
  // 13.8: one time in a thousand at 2 degrees of freedom.
  EXPECT_LT(chi_square(by_third, kDraws / 3.0), 13.8);
  EXPECT_LT(chi_square(by_remainder, kDraws / 3.0), 13.8);
}

// Neighbouring positions are what the loader asks for: their first numbers must look independent.
TEST(Random, NeighbouringPositionsAreIndependent) {
  constexpr uint64_t kPositions = 40'000;
  std::vector<int> pairs(16);
  uint32_t last = 0;
  for (uint64_t position = 0; position < kPositions; ++position) {
    const uint32_t drawn = Random(1, Stream::augment, 0, position).below(4);
    ++pairs[last * 4 + drawn];
    last = drawn;
  }
  // 37.7: one time in a thousand at 15 degrees of freedom.
  EXPECT_LT(chi_square(pairs, kPositions / 16.0), 37.7);
}

TEST(Random, UniformIsAtLeastZeroAndBelowOne) {
  Random random(5, Stream::init, 1);
  double sum = 0;
  constexpr int kDraws = 10'000;
  for (int i = 0; i < kDraws; ++i) {
    const float drawn = random.uniform();
    ASSERT_GE(drawn, 0.0f);
    ASSERT_LT(drawn, 1.0f);
    ASSERT_EQ(drawn * 0x1.0p24f, static_cast<float>(static_cast<int>(drawn * 0x1.0p24f)));
    sum += drawn;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.015);  // five standard deviations
}

TEST(RandomDeathTest, BelowZeroIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Random random(1, Stream::order, 0);
  EXPECT_DEATH(random.below(0), "bound > 0");
}

}  // namespace
}  // namespace tern
