#include "train/kept_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace tern {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(KeptBlocksTest, ALargeBlockIsGivenOutAgain) {
  KeptBlocks blocks;
  void* const first = blocks.take(8 * kMiB);
  std::memset(first, 7, 8 * kMiB);
  blocks.give_back(first);
  EXPECT_EQ(blocks.take(8 * kMiB - 1000), first) << "a little smaller will do";
  void* const second = blocks.take(8 * kMiB);
  EXPECT_NE(second, first);
  std::memset(second, 9, 8 * kMiB);
  blocks.give_back(first);
  blocks.give_back(second);
}

TEST(KeptBlocksTest, ABlockMuchLargerThanAskedForStaysKept) {
  KeptBlocks blocks;
  void* const large = blocks.take(64 * kMiB);
  blocks.give_back(large);
  void* const small = blocks.take(2 * kMiB);
  EXPECT_NE(small, large);
  EXPECT_GT(blocks.use().kept, 32 * kMiB);
  blocks.give_back(small);
}

TEST(KeptBlocksTest, SmallBlocksAreNotKept) {
  KeptBlocks blocks;
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{64}, KeptBlocks::kKeptFrom / 2}) {
    void* const data = blocks.take(bytes);
    ASSERT_NE(data, nullptr);
    std::memset(data, 1, bytes);
    EXPECT_EQ(blocks.use().in_use, 0U);
    blocks.give_back(data);
  }
  EXPECT_EQ(blocks.use().kept, 0U);
}

TEST(KeptBlocksTest, AllAreAligned) {
  KeptBlocks blocks;
  std::vector<void*> all;
  for (size_t bytes = 1; bytes < 9 * kMiB; bytes = bytes * 3 + 1) all.push_back(blocks.take(bytes));
  for (void* const data : all) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % KeptBlocks::kAlignment, 0U);
    blocks.give_back(data);
  }
}

TEST(KeptBlocksTest, NothingAndTooMuchAreNull) {
  KeptBlocks blocks;
  EXPECT_EQ(blocks.take(0), nullptr);
  blocks.give_back(nullptr);
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, SIZE_MAX / 2}) {
    EXPECT_EQ(blocks.take(bytes), nullptr) << bytes;
  }
}

// Another image size, another batch: what was kept for the one before must make room.
TEST(KeptBlocksTest, NeverHoldsMuchMoreThanTheMostThatWasUsedAtOnce) {
  KeptBlocks blocks;
  size_t most = 0;
  for (size_t size = 2 * kMiB; size <= 20 * kMiB; size += 3 * kMiB) {
    std::vector<void*> used;
    for (int i = 0; i < 4; ++i) {
      used.push_back(blocks.take(size));
      const KeptBlocks::Use use = blocks.use();
      most = std::max(most, use.in_use);
      EXPECT_EQ(use.most_in_use, most);
      EXPECT_LE(use.in_use + use.kept, most + most / 4);
    }
    for (void* const data : used) blocks.give_back(data);
    EXPECT_EQ(blocks.use().in_use, 0U);
    EXPECT_LE(blocks.use().kept, most + most / 4);
  }
}

TEST(KeptBlocksTest, ManyThreadsGetBlocksOfTheirOwn) {
  KeptBlocks blocks;
  const auto work = [&blocks](int thread) {
    for (size_t i = 0; i < 200; ++i) {
      const size_t bytes = kMiB + (i % 5) * 300'000;
      auto* const data = static_cast<unsigned char*>(blocks.take(bytes));
      const auto mark = static_cast<unsigned char>(thread * 16 + static_cast<int>(i % 16));
      data[0] = data[bytes - 1] = mark;
      std::this_thread::yield();
      ASSERT_EQ(data[0], mark);
      ASSERT_EQ(data[bytes - 1], mark);
      blocks.give_back(data);
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  threads.clear();
  EXPECT_EQ(blocks.use().in_use, 0U);
}

}  // namespace
}  // namespace tern
