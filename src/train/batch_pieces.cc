#include "train/batch_pieces.h"

#include <torch/torch.h>

#include <algorithm>

namespace tern {
namespace {

// Reads memory: for small networks LibTorch's operations would take longer than the step's
// arithmetic.
template <typename Number>
int64_t count_largest(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto* row = logits.const_data_ptr<Number>();
  const auto* label = labels.const_data_ptr<int64_t>();
  const int64_t classes = logits.size(1);
  int64_t correct = 0;
  for (int64_t n = 0; n < logits.size(0); ++n, row += classes) {
    correct += std::max_element(row, row + classes) - row == label[n] ? 1 : 0;
  }
  return correct;
}

}  // namespace

std::vector<BatchPiece> split(const DeviceBatch& batch, int64_t pieces) {
  const int64_t samples = batch.labels.size(0);
  pieces = std::min(pieces, samples);
  if (pieces <= 1) return {{batch.images, batch.labels}};
  std::vector<BatchPiece> split;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t begin = i * samples / pieces;
    const int64_t size = (i + 1) * samples / pieces - begin;
    split.push_back({batch.images.narrow(0, begin, size), batch.labels.narrow(0, begin, size),
                     static_cast<double>(size) / static_cast<double>(samples)});
  }
  return split;
}

int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& labels) {
  return logits.scalar_type() == torch::kFloat64 ? count_largest<double>(logits, labels)
                                                 : count_largest<float>(logits, labels);
}

}  // namespace tern
