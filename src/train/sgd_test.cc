#include "train/sgd.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "train/loss_scaler.h"

namespace tern {
namespace {

// Two matrices and a bias in fp64, the same every time.
std::vector<torch::Tensor> some_parameters() {
  torch::manual_seed(3);
  std::vector<torch::Tensor> parameters;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{5, 7}, {33}, {4, 3, 2, 2}}) {
    parameters.push_back(torch::randn(sizes, torch::kFloat64).set_requires_grad(true));
  }
  return parameters;
}

// A loss that depends on all of them, and on the step.
torch::Tensor loss_of(const std::vector<torch::Tensor>& parameters, int step) {
  torch::Tensor loss = torch::zeros({}, torch::kFloat64);
  for (const torch::Tensor& parameter : parameters) {
    loss = loss + (parameter * (0.3 + step)).sin().sum() + parameter.pow(4).mean();
  }
  return loss;
}

// What torch::optim::SGD makes of the same gradients, with PyTorch's clipping.
std::vector<torch::Tensor> by_pytorch(const OptimizerOptions& options, int steps) {
  std::vector<torch::Tensor> parameters = some_parameters();
  std::vector<torch::Tensor> decayed, others;
  for (const torch::Tensor& parameter : parameters) {
    const bool decays = options.weight_decay_on == "all" || parameter.dim() > 1;
    (decays ? decayed : others).push_back(parameter);
  }
  const auto sgd = torch::optim::SGDOptions(0.01)
                       .momentum(options.momentum)
                       .nesterov(options.nesterov)
                       .weight_decay(options.weight_decay);
  torch::optim::SGD optimizer(decayed, sgd);
  torch::optim::SGDOptions without = sgd;
  without.weight_decay(0);
  optimizer.add_param_group({others, std::make_unique<torch::optim::SGDOptions>(without)});
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(parameters, step).backward();
    if (options.clip_norm > 0) torch::nn::utils::clip_grad_norm_(parameters, options.clip_norm);
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.01 * (step + 1));
    optimizer.step();
  }
  return parameters;
}

std::vector<torch::Tensor> by_us(const OptimizerOptions& options, int steps) {
  std::vector<torch::Tensor> parameters = some_parameters();
  Sgd sgd(options, parameters);
  for (int step = 0; step < steps; ++step) {
    loss_of(parameters, step).backward();
    sgd.step(0.01 * (step + 1), nullptr);
  }
  return parameters;
}

TEST(Sgd, StepsAsPyTorchDoes) {
  for (const OptimizerOptions& options : {
           OptimizerOptions{.momentum = 0},
           OptimizerOptions{.momentum = 0, .weight_decay = 0.1},
           OptimizerOptions{.momentum = 0.9},
           OptimizerOptions{.momentum = 0.9, .weight_decay = 0.1},
           OptimizerOptions{.momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
           OptimizerOptions{.momentum = 0.9, .weight_decay = 0.1, .weight_decay_on = "weights"},
           OptimizerOptions{.momentum = 0.9, .clip_norm = 0.5},
           OptimizerOptions{.momentum = 0.9, .clip_norm = 1000},
       }) {
    const auto expected = by_pytorch(options, 6);
    const auto got = by_us(options, 6);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT((got[i] - expected[i]).abs().max().item<double>(), 1e-12)
          << "momentum " << options.momentum << ", nesterov " << options.nesterov << ", decay "
          << options.weight_decay << " on " << options.weight_decay_on << ", clip "
          << options.clip_norm << ", parameter " << i;
    }
  }
}

TEST(Sgd, TakesTheGradientsAway) {
  std::vector<torch::Tensor> parameters = some_parameters();
  Sgd sgd({}, parameters);
  loss_of(parameters, 0).backward();
  sgd.step(0.1, nullptr);
  for (const torch::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
}

TEST(LossScaler, AnOverflowStopsTheStepAndHalvesTheScale) {
  std::vector<torch::Tensor> parameters = {torch::ones({3}).set_requires_grad(true),
                                           torch::ones({2, 2}).set_requires_grad(true)};
  Sgd sgd({.momentum = 0.9, .weight_decay = 0.1}, parameters);
  LossScaler scaler(torch::kCPU);
  parameters[0].mutable_grad() = torch::full({3}, 65536.0F);
  parameters[1].mutable_grad() = torch::full({2, 2}, INFINITY);
  sgd.step(0.1, &scaler);
  scaler.update();
  EXPECT_TRUE(torch::equal(parameters[0], torch::ones({3})));
  EXPECT_TRUE(torch::equal(sgd.momenta()[0], torch::zeros({3})));
  EXPECT_EQ(scaler.found_inf().item<float>(), 1);
  EXPECT_EQ(scaler.scale().item<float>(), 32768);

  parameters[0].mutable_grad() = torch::full({3}, 32768.0F);
  parameters[1].mutable_grad() = torch::zeros({2, 2});
  sgd.step(0.1, &scaler);
  scaler.update();
  EXPECT_EQ(scaler.found_inf().item<float>(), 0);
  EXPECT_EQ(scaler.scale().item<float>(), 32768);
  EXPECT_EQ(scaler.good_steps().item<int>(), 1);
  EXPECT_TRUE(torch::allclose(sgd.momenta()[0], torch::full({3}, 1.1F)));
}

TEST(LossScaler, DoublesAfter2000GoodStepsInARow) {
  LossScaler scaler(torch::kCPU);
  const std::vector<torch::Tensor> good = {torch::ones({2})};
  for (int step = 0; step < 1999; ++step) {
    scaler.unscale(good);
    scaler.update();
  }
  EXPECT_EQ(scaler.scale().item<float>(), 65536);
  scaler.unscale(good);
  scaler.update();
  EXPECT_EQ(scaler.scale().item<float>(), 131072);
}

TEST(KeptBuffers, ComeBackOnlyAfterAnOverflow) {
  std::vector<torch::Tensor> buffers = {torch::tensor({1.0F, 2.0F}), torch::tensor(7),
                                        torch::tensor({3.0F})};
  KeptBuffers kept(buffers);
  const auto change = [&] {
    for (torch::Tensor& buffer : buffers) buffer.add_(1);
  };
  kept.keep();
  change();
  kept.restore_if(torch::zeros({}));
  EXPECT_TRUE(torch::equal(buffers[0], torch::tensor({2.0F, 3.0F})));
  EXPECT_EQ(buffers[1].item<int64_t>(), 8);
  kept.keep();
  change();
  buffers[2].fill_(NAN);
  kept.restore_if(torch::ones({}));
  EXPECT_TRUE(torch::equal(buffers[0], torch::tensor({2.0F, 3.0F})));
  EXPECT_EQ(buffers[1].item<int64_t>(), 8);
  EXPECT_TRUE(torch::equal(buffers[2], torch::tensor({4.0F})));
}

}  // namespace
}  // namespace tern
