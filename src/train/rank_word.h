// What ranks tell each other with every step, so that all decide alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tern {

// One rank's word. Numbers, because they travel in an all-reduce: each is summed into its rank's
// own place.
struct RankWord {
  double leaves = 0;        // 0: stays; else 1 + its NoticeKind
  double wants_change = 0;  // 1: a rank waits to be let in
  double gives_up = 0;      // 1: it has no batch to compute: the step is to be left undone
  double failed = 0;        // 0, or 1 + the code of the error that it ends with
  double busy_seconds = 0;  // of its last step, without the wait for others
  double step_seconds = 0;  // of its last step
  double data_seconds = 0;  // of busy_seconds: it waited for its part of the batch
  // That it sent in its last step, by the algorithm; and sent and received by the kernel's count.
  // -1: not known.
  double predicted_bytes = 0;
  double sent_bytes = -1;
  double received_bytes = -1;
  double bad_sample = 0;  // one that it could not read, by word_of(); 0: none

  bool operator==(const RankWord&) const = default;
};
inline constexpr size_t kRankWordSize = 11;

// Puts a word into its rank's place among `words`, which has room for all. And all back.
void put_word(const RankWord& word, int64_t rank, std::span<double> words);
std::vector<RankWord> read_words(std::span<const double> words);

// A sample that a rank could not read, as one number.
struct BadSampleWord {
  int64_t phase = 0;
  bool is_test = false;  // of the test data
  bool is_replaced = false;
  int64_t sample = 0;

  bool operator==(const BadSampleWord&) const = default;
};
double word_of(const BadSampleWord& bad);
BadSampleWord bad_sample_in(double word);

// One step of all ranks together.
struct RankStep {
  int64_t samples_planned = 0;  // of the whole batch, if none of them is bad
  int64_t own_samples = 0;      // of the batch that put() brought; 0: none was brought
  RankWord mine;

  std::vector<RankWord> all;  // by rank, after the step
  int64_t samples = 0;        // of the whole batch
  bool is_given_up() const;
};

}  // namespace tern
