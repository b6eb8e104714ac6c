// A batch in the pieces that it is computed in. Speaks LibTorch: for the learner alone.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/device_batch.h"

namespace tern {

// The samples [begin, begin + size) of a batch.
struct BatchPiece {
  torch::Tensor images, labels;
  double share = 1;  // of the batch's samples
};

// At most one for each sample.
std::vector<BatchPiece> split(const DeviceBatch& batch, int64_t pieces);

// How many samples' largest logit is their label's, the first one where several are. REQUIRES:
// dense tensors on the host, the logits of 32 or 64 bits.
int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& labels);

}  // namespace tern
