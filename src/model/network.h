// The networks, as LibTorch modules. Their parameter names are those of the PyTorch models they
// follow, so that weights travel both ways.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>

#include "core/result.h"
#include "model/options.h"

namespace tern {

// What a network is built for.
struct NetworkShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
};

// Float images (N, C, H, W), already normalised, to logits (N, classes).
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

// Builds the network that the options name, its first weights drawn from LibTorch's default
// generator: seed that first. `invalid` if it cannot take images of this shape.
Result<std::shared_ptr<Network>> make_network(const ModelOptions& options, NetworkShape shape);

}  // namespace tern
