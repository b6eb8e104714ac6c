#include "train/rank_word.h"

#include <algorithm>

namespace tern {
namespace {

constexpr std::array<double RankWord::*, kRankWordSize> kMembers = {
    &RankWord::leaves, &RankWord::wants_change, &RankWord::gives_up,
    &RankWord::failed, &RankWord::busy_seconds, &RankWord::step_seconds};

}  // namespace

void put_word(const RankWord& word, int64_t rank, std::span<double> words) {
  size_t place = static_cast<size_t>(rank) * kRankWordSize;
  for (const auto member : kMembers) words[place++] = word.*member;
}

std::vector<RankWord> read_words(std::span<const double> words) {
  std::vector<RankWord> all(words.size() / kRankWordSize);
  size_t place = 0;
  for (RankWord& word : all) {
    for (const auto member : kMembers) word.*member = words[place++];
  }
  return all;
}

bool RankStep::is_given_up() const {
  return std::any_of(all.begin(), all.end(),
                     [](const RankWord& word) { return word.gives_up != 0 || word.failed != 0; });
}

}  // namespace tern
