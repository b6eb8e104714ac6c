// Weights from elsewhere: what is taken, converted, left random and refused.
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "train/learner.h"
#include "train/test_learner.h"

namespace tern {
namespace {

Learner::Setup other_seed() {
  Learner::Setup setup = small_setup();
  setup.seed = 77;
  return setup;
}

TensorView& tensor_named(Safetensors& file, const std::string& name) {
  for (TensorView& tensor : file.tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "there is no " << name;
  return file.tensors.at(0);
}

TEST(BeginWith, TakesAllWeightsAndTheAverageFollows) {
  const Bytes bytes = *make(small_setup())->weights();
  Learner::Setup setup = other_seed();
  setup.ema = 0.9;
  const auto learner = make(setup);
  const auto report = learner->begin_with(*parse_safetensors(bytes));
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_EQ(report->loaded, 8);
  EXPECT_TRUE(report->head_replaced.empty());
  EXPECT_EQ(*learner->weights(), bytes);
}

TEST(BeginWith, AHeadForOtherClassesStaysRandom) {
  Learner::Setup more_classes = small_setup();
  more_classes.classes = 10;
  const Bytes bytes = *make(more_classes)->weights();
  const auto learner = make(other_seed());
  const Bytes before = *learner->weights();
  const auto report = learner->begin_with(*parse_safetensors(bytes));
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_EQ(report->loaded, 6);
  EXPECT_EQ(report->head_replaced, (std::vector<std::string>{"fc2.bias", "fc2.weight"}));
  const Bytes after = *learner->weights();
  EXPECT_EQ(numbers_in(after, "fc2.weight"), numbers_in(before, "fc2.weight"));
  EXPECT_EQ(numbers_in(after, "fc1.weight"), numbers_in(bytes, "fc1.weight"));
}

TEST(BeginWith, ConvertsOtherNumbers) {
  const Bytes bytes = *make(small_setup())->weights();
  Safetensors file = *parse_safetensors(bytes);
  // 1.5, -2, 0.25, ... in each type, at an odd address.
  const std::vector<double> expected = {1.5, -2, 0.25, 0};
  std::string doubles = " ", halves = " ", brains = " ";
  for (const double value : expected) {
    const auto bits = std::bit_cast<std::array<char, 8>>(value);
    doubles.append(bits.data(), bits.size());
    brains.append(std::bit_cast<std::array<char, 4>>(static_cast<float>(value)).data() + 2, 2);
  }
  for (const uint16_t half : std::array<uint16_t, 4>{0x3E00, 0xC000, 0x3400, 0x0000}) {
    halves.append(std::bit_cast<std::array<char, 2>>(half).data(), 2);
  }
  const auto learner = make(other_seed());
  for (const auto& [dtype, data] : std::vector<std::pair<std::string, std::string>>{
           {"F64", doubles}, {"F16", halves}, {"BF16", brains}}) {
    TensorView& bias = tensor_named(file, "conv1.bias");
    ASSERT_EQ(bias.shape, std::vector<int64_t>{4});
    bias.dtype = dtype;
    bias.data = BytesView(data).substr(1);
    ASSERT_TRUE(learner->begin_with(file).has_value()) << dtype;
    EXPECT_EQ(numbers_in(*learner->weights(), "conv1.bias"),
              std::vector<float>(expected.begin(), expected.end()))
        << dtype;
  }
}

TEST(BeginWith, EverythingThatDoesNotFitIsNamedAndNothingChanges) {
  const Bytes bytes = *make(small_setup())->weights();
  Safetensors file = *parse_safetensors(bytes);
  tensor_named(file, "conv1.bias").name = "stem.bias";
  tensor_named(file, "fc1.bias").shape = {8, 2};
  // Not of another class count, but of another width.
  TensorView& head = tensor_named(file, "fc2.weight");
  head.shape = {head.shape[0], head.shape[1] / 2, 2};
  const auto learner = make(other_seed());
  const Bytes before = *learner->save();
  const auto report = learner->begin_with(file);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::failed_precondition);
  for (const char* name : {"'stem.bias' is not", "'conv1.bias' is missing", "'fc1.bias' is F32",
                           "'fc2.weight' is F32"}) {
    EXPECT_NE(report.error().message.find(name), std::string::npos) << report.error().message;
  }
  EXPECT_EQ(*learner->save(), before);
}

TEST(BeginWith, OldFilesLackTheCountOfBatches) {
  const Bytes bytes = *make(resnet_setup())->weights();
  Safetensors file = *parse_safetensors(bytes);
  std::erase_if(file.tensors, [](const TensorView& tensor) {
    return tensor.name.ends_with("num_batches_tracked");
  });
  const auto learner = make(resnet_setup());
  ASSERT_TRUE(train_on(*learner, batch_of(0), 0, 0.1).has_value());
  ASSERT_TRUE(learner->begin_with(file).has_value());
  EXPECT_EQ(*learner->weights(), bytes);
}

}  // namespace
}  // namespace tern
