#include "image/resize_weights.h"

#include <algorithm>
#include <cmath>

namespace tern {

namespace {

// Rounds the weights at `exact` (their sum is `total`) to fractions of kWeightOne. What rounding
// leaves over goes to the largest, where it is the smallest part.
void round_weights(const double* exact, double total, int32_t count, uint16_t* weights) {
  const double scale = kWeightOne / total;
  int32_t left = kWeightOne;
  int32_t largest = 0;
  for (int32_t k = 0; k < count; ++k) {
    const auto weight = static_cast<int32_t>(exact[k] * scale + 0.5);
    weights[k] = static_cast<uint16_t>(std::min(weight, kWeightOne - 1));
    left -= weights[k];
    if (exact[k] > exact[largest]) largest = k;
  }
  const int32_t corrected = weights[largest] + left;
  weights[largest] = static_cast<uint16_t>(std::min(corrected, kWeightOne - 1));
}

}  // namespace

TouchedPixels touched_pixels(double begin, double length, int32_t size) {
  TouchedPixels touched;
  touched.begin = std::clamp(static_cast<int32_t>(begin), 0, size - 1);
  touched.offset = std::max(begin - touched.begin, 0.0);
  touched.length = length;
  // From the offset, not from `begin`: an image that was cut to its touched pixels gives the same.
  const double end = std::ceil(touched.offset + length);
  touched.count = std::max(static_cast<int32_t>(std::min<double>(end, size - touched.begin)), 1);
  return touched;
}

void fill_axis(const TouchedPixels& touched, int32_t results, Mirror mirror, FilterAxis& axis) {
  const double scale = touched.length / results;
  const double support = std::max(scale, 1.0);
  const double sharpness = 1.0 / support;
  const int32_t most = static_cast<int32_t>(std::ceil(support)) * 2 + 1;
  axis.taps = 0;
  axis.stride = std::min(most, touched.count);
  const auto rows = static_cast<size_t>(results);
  axis.first.resize(rows);
  axis.count.resize(rows);
  axis.weights.assign(rows * static_cast<size_t>(axis.stride), 0);
  std::vector<double>& exact = axis.exact;
  exact.resize(static_cast<size_t>(axis.stride));
  for (int32_t i = 0; i < results; ++i) {
    const double centre = touched.offset + (i + 0.5) * scale;
    int32_t begin = std::max(static_cast<int32_t>(centre - support + 0.5), 0);
    int32_t end = std::min(static_cast<int32_t>(centre + support + 0.5), touched.count);
    begin = std::min(begin, touched.count - 1);
    end = std::clamp(end, begin + 1, begin + axis.stride);
    double total = 0;
    for (int32_t k = begin; k < end; ++k) {
      const double weight = std::max(1.0 - std::abs((k - centre + 0.5) * sharpness), 0.0);
      exact[static_cast<size_t>(k - begin)] = weight;
      total += weight;
    }
    const int32_t result = mirror == Mirror::yes ? results - 1 - i : i;
    uint16_t* weights = axis.weights.data() + static_cast<size_t>(result * int64_t{axis.stride});
    int32_t count = end - begin;
    round_weights(exact.data(), total, count, weights);
    while (count > 1 && weights[count - 1] == 0) --count;
    axis.first[static_cast<size_t>(result)] = begin;
    axis.count[static_cast<size_t>(result)] = count;
    axis.taps = std::max(axis.taps, count);
  }
}

}  // namespace tern
