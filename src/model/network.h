// The networks, as LibTorch modules. Their parameter names are those of the PyTorch models they
// follow, so that weights travel both ways.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>

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
  // What the last layer's parameters begin with, without the dot: "fc" for fc.weight and fc.bias.
  virtual std::string head() const = 0;
  // Whether images of another size than the one it was built for work too, with the same weights.
  virtual bool takes_any_size() const { return false; }

  // As PyTorch's: integers (how many batches a norm has seen) keep their type. LibTorch's own
  // would make them floats too, and a state dict of another type than torchvision's.
  void to(torch::Device device, torch::Dtype type, bool non_blocking = false) override;
  void to(torch::Dtype type, bool non_blocking = false) override;
  using torch::nn::Module::to;
};

// Builds the network that the options name, its first weights drawn from LibTorch's default
// generator: seed that first. `invalid` if it cannot take images of this shape.
Result<std::shared_ptr<Network>> make_network(const ModelOptions& options, NetworkShape shape);

}  // namespace tern
