#include "train/rank_word.h"

#include <algorithm>
#include <cmath>

namespace tern {
namespace {

constexpr std::array<double RankWord::*, kRankWordSize> kMembers = {
    &RankWord::leaves,         &RankWord::wants_change,    &RankWord::gives_up,
    &RankWord::failed,         &RankWord::busy_seconds,    &RankWord::step_seconds,
    &RankWord::data_seconds,   &RankWord::predicted_bytes, &RankWord::sent_bytes,
    &RankWord::received_bytes, &RankWord::bad_sample};

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

namespace {

// A double holds whole numbers of 53 bits: 40 for the sample, 2 for what it is, the rest for the
// phase.
constexpr int64_t kSamples = int64_t{1} << 40;
constexpr int64_t kPhases = int64_t{1} << 10;

}  // namespace

double word_of(const BadSampleWord& bad) {
  const int64_t kind =
      (bad.phase % kPhases) * 4 + (bad.is_test ? 2 : 0) + (bad.is_replaced ? 1 : 0);
  return static_cast<double>(1 + kind * kSamples + bad.sample % kSamples);
}

BadSampleWord bad_sample_in(double word) {
  const int64_t number = std::llround(word) - 1;
  const int64_t kind = number / kSamples;
  return {.phase = kind / 4,
          .is_test = kind % 4 >= 2,
          .is_replaced = kind % 2 == 1,
          .sample = number % kSamples};
}

bool RankStep::is_given_up() const {
  return std::any_of(all.begin(), all.end(),
                     [](const RankWord& word) { return word.gives_up != 0 || word.failed != 0; });
}

}  // namespace tern
