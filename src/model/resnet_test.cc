#include "model/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "model/model_names.h"

namespace tern {
namespace {

using testing::HasSubstr;
using Shape = std::vector<int64_t>;

std::shared_ptr<Network> build(const ModelOptions& options, NetworkShape shape) {
  auto network = make_network(options, shape);
  if (!network.has_value()) {
    ADD_FAILURE() << network.error().message;
    return nullptr;
  }
  return *network;
}

int64_t parameter_count(const Network& network) {
  int64_t count = 0;
  for (const auto& parameter : network.parameters()) count += parameter.numel();
  return count;
}

// Of parameters and buffers, as a state dict has them.
std::map<std::string, Shape> state_shapes(const Network& network) {
  std::map<std::string, Shape> shapes;
  for (const auto& item : network.named_parameters())
    shapes[item.key()] = item.value().sizes().vec();
  for (const auto& item : network.named_buffers()) shapes[item.key()] = item.value().sizes().vec();
  return shapes;
}

TEST(ResNet, ItHasAsManyParametersAsTorchvisions) {
  const NetworkShape imagenet{3, 224, 224, 1000};
  EXPECT_EQ(parameter_count(*build({.name = "resnet18"}, imagenet)), 11'689'512);
  EXPECT_EQ(parameter_count(*build({.name = "resnet34"}, imagenet)), 21'797'672);
  EXPECT_EQ(parameter_count(*build({.name = "resnet50"}, imagenet)), 25'557'032);
}

TEST(ResNet, NamesAndShapesAreTorchvisions) {
  const auto shapes = state_shapes(*build({.name = "resnet18"}, {3, 64, 64, 10}));
  EXPECT_EQ(shapes.size(), 122U);  // len(torchvision.models.resnet18().state_dict())
  EXPECT_EQ(shapes.at("conv1.weight"), (Shape{64, 3, 7, 7}));
  EXPECT_EQ(shapes.at("bn1.running_var"), (Shape{64}));
  EXPECT_EQ(shapes.at("bn1.num_batches_tracked"), Shape{});
  EXPECT_EQ(shapes.at("layer1.0.conv1.weight"), (Shape{64, 64, 3, 3}));
  EXPECT_FALSE(shapes.contains("layer1.0.downsample.0.weight"));
  EXPECT_EQ(shapes.at("layer2.0.downsample.0.weight"), (Shape{128, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer4.1.bn2.bias"), (Shape{512}));
  EXPECT_EQ(shapes.at("fc.weight"), (Shape{10, 512}));

  const auto deep = state_shapes(*build({.name = "resnet50"}, {3, 64, 64, 10}));
  EXPECT_EQ(deep.size(), 320U);
  EXPECT_EQ(deep.at("layer1.0.downsample.0.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(deep.at("layer1.0.downsample.1.num_batches_tracked"), Shape{});
  EXPECT_EQ(deep.at("layer4.2.conv3.weight"), (Shape{2048, 512, 1, 1}));
  EXPECT_EQ(deep.at("fc.bias"), (Shape{10}));
}

TEST(ResNet, TheSmallStemKeepsTheNames) {
  const ModelOptions small{.name = "resnet18", .stem = "small"};
  auto network = build(small, {3, 32, 32, 10});
  auto shapes = state_shapes(*network);
  EXPECT_EQ(shapes.at("conv1.weight"), (Shape{64, 3, 3, 3}));
  auto imagenet = state_shapes(*build({.name = "resnet18"}, {3, 32, 32, 10}));
  shapes.erase("conv1.weight");
  imagenet.erase("conv1.weight");
  EXPECT_EQ(shapes, imagenet);
}

TEST(ResNet, ItTakesAnySizeAndRectanglesAndGrey) {
  torch::NoGradGuard no_grad;
  for (const std::string stem : {"imagenet", "small"}) {
    for (const int64_t channels : {1, 3}) {
      auto network = build({.name = "resnet18", .stem = stem}, {channels, 32, 32, 7});
      ASSERT_TRUE(network->takes_any_size());
      network->eval();
      for (const Shape& size : {Shape{32, 32}, Shape{33, 47}, Shape{96, 64}}) {
        const auto logits = network->forward(torch::randn({2, channels, size[0], size[1]}));
        EXPECT_EQ(logits.sizes().vec(), (Shape{2, 7}));
        EXPECT_TRUE(logits.isfinite().all().item<bool>());
      }
    }
  }
}

TEST(ResNet, ImagesThatAreTooSmallAreRefusedWithTheStemThatFits) {
  const auto refused = make_network({.name = "resnet18"}, {3, 31, 64, 10});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("32x32"));
  EXPECT_THAT(refused.error().message, HasSubstr("model.stem = \"small\""));

  EXPECT_TRUE(make_network({.name = "resnet18", .stem = "small"}, {3, 8, 31, 10}).has_value());
  EXPECT_FALSE(make_network({.name = "resnet18", .stem = "small"}, {3, 7, 64, 10}).has_value());
}

// PyTorch refuses it too; without that the running variance would be NaN for ever.
TEST(ResNet, ATrainingStepThatLeavesBatchNormOneValueIsRefused) {
  auto network = build({.name = "resnet18"}, {3, 32, 32, 10});
  try {
    network->forward(torch::randn({1, 3, 32, 32}));
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("one value per channel"));
  }
  EXPECT_TRUE(network->named_buffers()["layer4.1.bn2.running_var"].isfinite().all().item<bool>());

  network->forward(torch::randn({1, 3, 32, 33}));  // two values
  for (const auto& buffer : network->buffers()) EXPECT_TRUE(buffer.isfinite().all().item<bool>());
  network->eval();
  network->forward(torch::randn({1, 3, 32, 32}));
}

TEST(ResNet, ItBeginsWithHesWeights) {
  torch::manual_seed(1);
  auto network = build({.name = "resnet50"}, {3, 64, 64, 10});
  for (const auto& item : network->named_parameters()) {
    const auto& name = item.key();
    const auto& value = item.value();
    if (value.dim() == 4) {
      const double expected = std::sqrt(2.0 / static_cast<double>(value.numel() / value.size(1)));
      EXPECT_NEAR(value.std().item<double>() / expected, 1.0, 0.05) << name;
    } else if (name.find("bn") != std::string::npos || name.find("downsample.1") < name.size()) {
      const double expected = name.ends_with("weight") ? 1.0 : 0.0;
      EXPECT_TRUE((value == expected).all().item<bool>()) << name;
    }
  }
}

TEST(ResNet, ZeroInitMakesEveryBlockBeginAsNothing) {
  torch::manual_seed(1);
  auto network = build({.name = "resnet50", .zero_init = true}, {3, 64, 64, 10});
  int64_t zeros = 0;
  for (const auto& item : network->named_parameters()) {
    if (!item.key().ends_with("bn3.weight")) continue;
    EXPECT_TRUE((item.value() == 0).all().item<bool>()) << item.key();
    ++zeros;
  }
  EXPECT_EQ(zeros, 16);

  auto basic = build({.name = "resnet18", .zero_init = true}, {3, 64, 64, 10});
  const auto parameters = basic->named_parameters();
  EXPECT_TRUE((parameters["layer3.1.bn2.weight"] == 0).all().item<bool>());
  EXPECT_TRUE((parameters["layer3.1.bn1.weight"] == 1).all().item<bool>());
}

TEST(ResNet, BatchesAreCountedInTrainingOnly) {
  auto network = build({.name = "resnet18", .stem = "small"}, {1, 32, 32, 3});
  const auto images = torch::randn({2, 1, 32, 32});
  network->forward(images);
  network->forward(images);
  network->eval();
  network->forward(images);
  int64_t counters = 0;
  for (const auto& item : network->named_buffers()) {
    if (!item.key().ends_with("num_batches_tracked")) continue;
    EXPECT_EQ(item.value().item<int64_t>(), 2) << item.key();
    ++counters;
  }
  EXPECT_EQ(counters, 20);
}

TEST(ResNet, AnotherPrecisionLeavesTheCountersIntegers) {
  auto network = build({.name = "resnet18"}, {3, 32, 32, 3});
  network->to(torch::kCPU, torch::kFloat64);
  for (const auto& parameter : network->parameters())
    EXPECT_EQ(parameter.scalar_type(), torch::kFloat64);
  const auto buffers = network->named_buffers();
  EXPECT_EQ(buffers["bn1.running_mean"].scalar_type(), torch::kFloat64);
  EXPECT_EQ(buffers["bn1.num_batches_tracked"].scalar_type(), torch::kInt64);
  EXPECT_EQ(network->forward(torch::zeros({2, 3, 64, 64}, torch::kFloat64)).scalar_type(),
            torch::kFloat64);
}

// What is asked of a name without LibTorch is what the network itself says.
TEST(ModelNames, TheySayWhatTheNetworksSay) {
  const std::map<std::string, std::string> heads = {{"small-cnn", "fc2"},
                                                    {"cifar-tutorial", "fc3"},
                                                    {"resnet18", "fc"},
                                                    {"resnet34", "fc"},
                                                    {"resnet50", "fc"}};
  for (const auto& [name, head] : heads) {
    auto network = build({.name = name}, {3, 32, 32, 10});
    EXPECT_EQ(network->takes_any_size(), takes_any_size(name)) << name;
    EXPECT_EQ(network->head(), head);
    EXPECT_TRUE(network->named_parameters().contains(head + ".weight")) << name;
  }
}

}  // namespace
}  // namespace tern
