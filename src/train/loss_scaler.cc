#include "train/loss_scaler.h"

#include <torch/torch.h>

namespace tern {
namespace {

constexpr float kFirstScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr int64_t kGrowthSteps = 2000;

}  // namespace

LossScaler::LossScaler(torch::Device device)
    : scale_(torch::full({}, kFirstScale, torch::dtype(torch::kFloat32).device(device))),
      good_steps_(torch::zeros({}, torch::dtype(torch::kInt32).device(device))),
      found_inf_(torch::zeros({}, torch::dtype(torch::kFloat32).device(device))) {}

void LossScaler::unscale(const std::vector<torch::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  torch::Tensor found_inf = found_inf_;
  found_inf.zero_();
  // Exact: the scale is a power of two.
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, scale_.reciprocal());
}

void LossScaler::update() {
  const torch::NoGradGuard no_grad;
  torch::Tensor scale = scale_;
  torch::Tensor good_steps = good_steps_;
  at::_amp_update_scale_(scale, good_steps, found_inf_, kGrowth, kBackoff, kGrowthSteps);
}

KeptBuffers::KeptBuffers(const std::vector<torch::Tensor>& buffers) {
  const torch::NoGradGuard no_grad;
  std::map<torch::ScalarType, std::vector<torch::Tensor>> by_type;
  for (const torch::Tensor& buffer : buffers) by_type[buffer.scalar_type()].push_back(buffer);
  for (auto& [type, of_type] : by_type) {
    std::vector<torch::Tensor> flattened;
    for (const torch::Tensor& buffer : of_type) flattened.push_back(buffer.flatten());
    Flat flat{.live = torch::cat(flattened)};
    flat.kept = torch::empty_like(flat.live);
    int64_t begin = 0;
    for (torch::Tensor& buffer : of_type) {
      const int64_t size = buffer.numel();
      buffer.set_data(flat.live.narrow(0, begin, size).view(buffer.sizes()));
      begin += size;
    }
    flats_[type] = flat;
  }
}

void KeptBuffers::keep() {
  for (auto& [type, flat] : flats_) flat.kept.copy_(flat.live);
}

void KeptBuffers::restore() {
  const torch::NoGradGuard no_grad;
  for (auto& [type, flat] : flats_) flat.live.copy_(flat.kept);
}

void KeptBuffers::restore_if(const torch::Tensor& found_inf) {
  const torch::NoGradGuard no_grad;
  if (flats_.empty()) return;
  const torch::Tensor condition = found_inf.ne(0);
  for (auto& [type, flat] : flats_) torch::where_out(flat.live, condition, flat.kept, flat.live);
}

}  // namespace tern
