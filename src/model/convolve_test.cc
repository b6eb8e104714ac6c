#include "model/convolve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

namespace tern {
namespace {

struct Case {
  int64_t height, width, kernel, stride;
};

// Output and both gradients, of one of the two ways.
using Convolution = std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>;

std::vector<torch::Tensor> results_of(const Convolution& convolution, const torch::Tensor& x,
                                      const torch::Tensor& weight) {
  const auto input = x.clone().requires_grad_(), kernel = weight.clone().requires_grad_();
  const auto out = convolution(input, kernel);
  // Each output counts differently, so that none can stand in for another.
  (out * torch::arange(out.numel(), out.options()).sin().view_as(out)).sum().backward();
  return {out.detach(), input.grad(), kernel.grad()};
}

class Convolve : public testing::TestWithParam<Case> {};

TEST_P(Convolve, IsLibTorchsConvolutionWithItsGradients) {
  const auto [height, width, kernel, stride] = GetParam();
  const int64_t padding = kernel / 2;
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
      torch::manual_seed(1);
      const auto x = torch::randn({5, 6, height, width}, type).contiguous(format);
      const auto weight = torch::randn({7, 6, kernel, kernel}, type).contiguous(format);
      const auto ours = results_of(
          [&](const auto& in, const auto& w) { return convolve(in, w, stride, padding); }, x,
          weight);
      const auto theirs = results_of(
          [&](const auto& in, const auto& w) { return torch::conv2d(in, w, {}, stride, padding); },
          x, weight);
      const double close = type == torch::kDouble ? 1e-12 : 1e-5;
      for (size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(ours[i].sizes(), theirs[i].sizes());
        EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(),
                  close * theirs[i].abs().max().item<double>())
            << "result " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Maps, Convolve,
                         testing::Values(Case{1, 1, 3, 1}, Case{2, 2, 3, 1}, Case{1, 3, 3, 1},
                                         Case{4, 4, 3, 2}, Case{4, 4, 3, 1}, Case{2, 6, 3, 1},
                                         Case{7, 7, 3, 2}, Case{2, 2, 1, 1}, Case{4, 4, 1, 2},
                                         Case{5, 3, 7, 2}, Case{9, 9, 3, 1}),
                         [](const auto& maps) {
                           return fmt::format("{}x{}Kernel{}Stride{}", maps.param.height,
                                              maps.param.width, maps.param.kernel,
                                              maps.param.stride);
                         });

TEST(Convolve, EqualInputsGiveEqualBits) {
  const auto x = torch::randn({32, 64, 2, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({64, 64, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
  const Convolution ours = [](const auto& in, const auto& w) { return convolve(in, w, 1, 1); };
  const auto first = results_of(ours, x, weight);
  for (int round = 0; round < 5; ++round) {
    const auto again = results_of(ours, x, weight);
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(again[i]));
  }
}

TEST(Convolve, GradientsThatNobodyWantsAreNotFormed) {
  const auto x = torch::randn({3, 4, 2, 2});
  const auto weight = torch::randn({4, 4, 3, 3}).requires_grad_();
  convolve(x, weight, 1, 1).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(weight.grad().defined());
}

}  // namespace
}  // namespace tern
