#include "loader/shuffle_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace tern {
namespace {

double log_factorial(int64_t n) {
  int sign = 0;  // lgamma() writes it to a global
  return lgamma_r(static_cast<double>(n) + 1, &sign);
}

// Different classes expected among `drawn` of `samples` samples, `counts` of each class.
double expected_classes(const std::vector<int64_t>& counts, int64_t samples, int64_t drawn) {
  const double all = log_factorial(samples) - log_factorial(samples - drawn);
  double expected = 0;
  for (const int64_t count : counts) {
    const int64_t others = samples - count;
    if (count == 0) continue;
    // C(others, drawn) / C(samples, drawn): none of the drawn is of this class.
    const double missed =
        drawn > others ? 0 : std::exp(log_factorial(others) - log_factorial(others - drawn) - all);
    expected += 1 - missed;
  }
  return expected;
}

}  // namespace

ShuffleQuality shuffle_quality(const Plan& plan, const Dataset& dataset, int64_t batches) {
  TERN_CHECK(batches > 0 && plan.samples() == dataset.size());
  std::vector<int64_t> counts(static_cast<size_t>(dataset.classes()));
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    ++counts[static_cast<size_t>(dataset.label(sample))];
  }
  ShuffleQuality quality{.batch = plan.batch(0).size()};
  const int64_t looked_at = std::min(batches, plan.batches_per_epoch());
  double expected_of_first = 0;
  for (int64_t b = 0; b < looked_at; ++b) {
    const PositionRange positions = plan.batch(b);
    std::vector<int64_t> samples(static_cast<size_t>(positions.size()));
    plan.samples_at(0, positions.begin, samples);
    std::set<int64_t> seen;
    for (const int64_t sample : samples) seen.insert(dataset.label(sample));
    quality.classes_in_a_batch += static_cast<double>(seen.size());
    // All batches are of one size, but the last.
    if (b == 0 || positions.size() != quality.batch) {
      expected_of_first = expected_classes(counts, dataset.size(), positions.size());
    }
    quality.classes_expected += expected_of_first;
  }
  quality.classes_in_a_batch /= static_cast<double>(looked_at);
  quality.classes_expected /= static_cast<double>(looked_at);
  quality.ratio = std::min(1.0, quality.classes_in_a_batch / quality.classes_expected);
  return quality;
}

std::string describe_shuffle_quality(const ShuffleQuality& quality, std::string_view shuffle) {
  return fmt::format(
      "shuffle {}: quality {:.2f} (a batch of {} holds {:.0f} {}; a full shuffle would give "
      "{:.0f})",
      shuffle, quality.ratio, quality.batch, quality.classes_in_a_batch,
      std::lround(quality.classes_in_a_batch) == 1 ? "class" : "classes", quality.classes_expected);
}

}  // namespace tern
