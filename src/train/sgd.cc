#include "train/sgd.h"

#include <torch/torch.h>

namespace tern {

Sgd::Sgd(const OptimizerOptions& options, std::vector<torch::Tensor> parameters)
    : options_(options) {
  // Biases and what batch norm learns have one dimension; nothing else has.
  const bool decays_all = options.weight_decay_on == "all";
  groups_.push_back({.weight_decay = options.weight_decay});
  groups_.push_back({.weight_decay = 0});
  for (torch::Tensor& parameter : parameters) {
    Group& group = groups_[decays_all || parameter.dim() > 1 ? 0 : 1];
    if (options.momentum > 0) {
      const torch::NoGradGuard no_grad;
      momenta_.push_back(torch::zeros_like(parameter));
      group.momenta.push_back(momenta_.back());
    }
    group.parameters.push_back(std::move(parameter));
  }
  std::erase_if(groups_, [](const Group& group) { return group.parameters.empty(); });
}

void Sgd::step(double learning_rate, LossScaler* scaler) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> all;
  for (Group& group : groups_) {
    group.gradients.clear();
    // Left undefined, so that the next backward pass puts its own there instead of adding.
    for (torch::Tensor& parameter : group.parameters) {
      group.gradients.push_back(std::exchange(parameter.mutable_grad(), torch::Tensor()));
    }
    if (scaler == nullptr && options_.clip_norm == 0) continue;
    all.insert(all.end(), group.gradients.begin(), group.gradients.end());
  }
  std::optional<torch::Tensor> found_inf;
  if (scaler != nullptr) {
    scaler->unscale(all);
    found_inf = scaler->found_inf();
  }
  if (options_.clip_norm > 0) clip(all);
  for (Group& group : groups_) {
    at::_fused_sgd_(group.parameters, group.gradients, group.momenta, group.weight_decay,
                    options_.momentum, learning_rate, /*dampening=*/0, options_.nesterov,
                    /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, found_inf);
    group.gradients.clear();
  }
}

// As torch.nn.utils.clip_grad_norm_ does it.
void Sgd::clip(const std::vector<torch::Tensor>& gradients) const {
  const torch::Tensor norm =
      torch::linalg_vector_norm(torch::stack(at::_foreach_norm(gradients, 2)), 2);
  const torch::Tensor factor =
      torch::reciprocal(norm + 1e-6).mul_(options_.clip_norm).clamp_max_(1);
  at::_foreach_mul_(gradients, factor);
}

}  // namespace tern
