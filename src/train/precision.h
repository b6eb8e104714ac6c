// How LibTorch is told to compute in a mixed precision. Speaks LibTorch: for the learner alone.
#pragma once

#include <torch/types.h>

#include "train/learner.h"

namespace tern {

// What weights and batch norm are kept in, and the loss is computed in.
inline torch::ScalarType weight_type(Precision precision) {
  return precision == Precision::fp64 ? torch::kFloat64 : torch::kFloat32;
}

// What convolutions and matrix products are computed in.
torch::ScalarType compute_type(Precision precision);

// While it lives, LibTorch's autocast chooses what this thread computes in; nothing changes if the
// precision is not mixed. The 16-bit copies of the weights that LibTorch keeps end with it, so that
// the next step makes them anew. Scopes do not nest.
class MixedScope {
 public:
  MixedScope(torch::Device device, Precision precision);
  ~MixedScope();
  MixedScope(const MixedScope&) = delete;
  MixedScope& operator=(const MixedScope&) = delete;

 private:
  const torch::DeviceType device_;
  const bool is_mixed_;
};

}  // namespace tern
