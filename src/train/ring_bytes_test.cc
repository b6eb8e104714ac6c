#include "train/ring_bytes.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(RingBytes, AreTwiceTheTensorsShareAndAFewHeaders) {
  EXPECT_EQ(ring_bytes(1'000'000, 4, 1, 0), 0);
  EXPECT_EQ(ring_bytes(0, 4, 2, 0), 0);
  // Four segments, of which each rank sends two in either half: four messages of three headers.
  EXPECT_EQ(ring_bytes(1'000'000, 4, 2, 0), 1'000'000 + 4 * 3 * 48);
  // Eight segments of at most a megabyte: eight messages.
  EXPECT_EQ(ring_bytes(8 << 20, 4, 2, 0), (8 << 20) + 8 * 3 * 48);
  // Of three ranks each sends two thirds twice.
  EXPECT_EQ(ring_bytes(6'000'000, 4, 3, 1), 8'000'000 + 8 * 3 * 48);
}

TEST(RingBytes, OfAllRanksTogetherAreTheSameHoweverUnevenTheSegmentsAre) {
  for (const int64_t world : {2, 3, 5}) {
    for (const int64_t elements : {1, 7, 15, 100, 300'001}) {
      int64_t all = 0;
      for (int64_t rank = 0; rank < world; ++rank) all += ring_bytes(elements * 8, 8, world, rank);
      const int64_t data = 2 * (world - 1) * elements * 8;
      EXPECT_GT(all, data);
      EXPECT_EQ((all - data) % (3 * 48), 0) << elements << " elements, " << world << " ranks";
    }
  }
}

}  // namespace
}  // namespace tern
