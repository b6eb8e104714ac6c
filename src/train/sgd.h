// The optimizer: PyTorch's SGD, by LibTorch's kernel that updates many tensors in one call. Speaks
// LibTorch: for the learner alone.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/loss_scaler.h"
#include "train/options.h"

namespace tern {

// Owned by the learner; one thread. Never waits for a GPU. May throw what LibTorch throws.
//
// PyTorch sets the momentum to the gradient at the first step. Beginning with zeros gives the same
// numbers, and needs no word about whether there was a first step, which fp16 may skip.
class Sgd {
 public:
  // The parameters' gradients are what their backward passes leave with them.
  Sgd(const OptimizerOptions& options, std::vector<torch::Tensor> parameters);

  // Moves the parameters and takes their gradients away. With a `scaler`, the gradients are first
  // divided by its scale; if one of them overflowed nothing moves. Null: none.
  void step(double learning_rate, LossScaler* scaler);

  // One for each parameter, in their order; empty without momentum.
  const std::vector<torch::Tensor>& momenta() const { return momenta_; }

 private:
  // Parameters with the same weight decay.
  struct Group {
    double weight_decay = 0;
    std::vector<torch::Tensor> parameters, momenta, gradients;
  };

  void clip(const std::vector<torch::Tensor>& gradients) const;

  // Constant after construction, the tensors' contents apart.
  const OptimizerOptions options_;
  std::vector<torch::Tensor> momenta_;
  std::vector<Group> groups_;
};

}  // namespace tern
