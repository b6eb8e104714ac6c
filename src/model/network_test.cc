#include "model/network.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace tern {
namespace {

std::map<std::string, std::vector<int64_t>> parameter_shapes(Network& network) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& item : network.named_parameters())
    shapes[item.key()] = item.value().sizes().vec();
  return shapes;
}

// As in PyTorch's tutorial, so that its weights and ours are interchangeable.
TEST(Network, TheCifarTutorialNetHasItsNamesAndShapes) {
  auto network = make_network({.name = "cifar-tutorial"}, {3, 32, 32, 10});
  ASSERT_TRUE(network.has_value());
  const std::map<std::string, std::vector<int64_t>> expected = {
      {"conv1.weight", {6, 3, 5, 5}},  {"conv1.bias", {6}},
      {"conv2.weight", {16, 6, 5, 5}}, {"conv2.bias", {16}},
      {"fc1.weight", {120, 400}},      {"fc1.bias", {120}},
      {"fc2.weight", {84, 120}},       {"fc2.bias", {84}},
      {"fc3.weight", {10, 84}},        {"fc3.bias", {10}}};
  EXPECT_EQ(parameter_shapes(**network), expected);
  EXPECT_EQ((*network)->forward(torch::zeros({2, 3, 32, 32})).sizes().vec(),
            (std::vector<int64_t>{2, 10}));
}

TEST(Network, TheSmallCnnTakesAnyImageOfAtLeastFourPixels) {
  for (const int64_t side : {4, 7, 28, 33}) {
    auto network = make_network({.name = "small-cnn", .width = 3}, {2, side, side + 1, 5});
    ASSERT_TRUE(network.has_value()) << side;
    EXPECT_EQ((*network)->forward(torch::zeros({1, 2, side, side + 1})).sizes().vec(),
              (std::vector<int64_t>{1, 5}));
  }
}

TEST(Network, ImagesTooSmallForTheNetAreRefused) {
  const auto small = make_network({.name = "small-cnn"}, {1, 3, 28, 10});
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().code, Code::invalid);
  const auto tutorial = make_network({.name = "cifar-tutorial"}, {3, 15, 32, 10});
  ASSERT_FALSE(tutorial.has_value());
  EXPECT_EQ(tutorial.error().code, Code::invalid);
  EXPECT_TRUE(make_network({.name = "cifar-tutorial"}, {3, 16, 16, 10}).has_value());
}

TEST(Network, AnUnknownNameIsRefused) {
  EXPECT_FALSE(make_network({.name = "resnet-9000"}, {3, 32, 32, 10}).has_value());
}

}  // namespace
}  // namespace tern
