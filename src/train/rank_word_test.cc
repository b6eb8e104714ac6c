#include "train/rank_word.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(RankWord, EachRanksComesBackFromTheSumOfAll) {
  const RankWord first{.leaves = 2, .step_seconds = 0.5, .sent_bytes = 7, .bad_sample = 9};
  const RankWord second{.gives_up = 1, .data_seconds = 0.1, .predicted_bytes = 3};
  std::vector<double> sum(2 * kRankWordSize);
  for (const auto& [word, rank] : {std::pair(first, 0), std::pair(second, 1)}) {
    std::vector<double> mine(sum.size());
    put_word(word, rank, mine);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
  }
  EXPECT_EQ(read_words(sum), (std::vector<RankWord>{first, second}));
}

TEST(RankWord, ABadSampleIsOneNumber) {
  for (const BadSampleWord& bad :
       {BadSampleWord{}, BadSampleWord{.is_replaced = true, .sample = 1},
        BadSampleWord{.phase = 3, .is_test = true, .sample = (int64_t{1} << 40) - 1},
        BadSampleWord{.phase = 1023, .is_test = true, .is_replaced = true, .sample = 12345}}) {
    EXPECT_NE(word_of(bad), 0);
    EXPECT_EQ(bad_sample_in(word_of(bad)), bad);
  }
}

}  // namespace
}  // namespace tern
