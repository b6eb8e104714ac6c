// Precisions, pieces, averages and clipping: that each does what its option says.
#include <gtest/gtest.h>

#include <cmath>

#include "train/learner.h"
#include "train/test_learner.h"

namespace tern {
namespace {

Learner::Setup setup_in(Precision precision) {
  Learner::Setup setup = small_setup();
  setup.model.dropout = 0;
  setup.precision = precision;
  return setup;
}

double first_loss(const Learner::Setup& setup) {
  const auto result = train_on(*make(setup), batch_of(0), 0, 0.1);
  EXPECT_TRUE(result.has_value()) << result.error().to_string();
  return result.value_or({}).loss;
}

TEST(Precision, EachLearns) {
  for (const Precision precision :
       {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp64}) {
    const auto learner = make(setup_in(precision));
    double first = 0, last = 0;
    for (int64_t step = 0; step < 40; ++step) {
      const auto result = train_on(*learner, batch_of(step), step, 0.05);
      ASSERT_TRUE(result.has_value()) << result.error().to_string();
      if (step == 0) first = result->loss;
      last = result->loss;
    }
    EXPECT_LT(last, first / 2) << precision_name(precision);
    EXPECT_GE(evaluate_on(*learner, batch_of(1000, 60))->top1, 40) << precision_name(precision);
  }
}

TEST(Precision, TheyAgreeAsFarAsTheirDigitsGo) {
  const double exact = first_loss(setup_in(Precision::fp64));
  EXPECT_NEAR(first_loss(setup_in(Precision::fp32)), exact, 1e-6);
  const double half = first_loss(setup_in(Precision::fp16));
  const double brain = first_loss(setup_in(Precision::bf16));
  EXPECT_NEAR(half, exact, 2e-3);
  EXPECT_NEAR(brain, exact, 2e-2);
  EXPECT_NE(half, brain);
  EXPECT_NE(half, first_loss(setup_in(Precision::fp32)));
}

TEST(Precision, WeightsStayFp32AndAreTheSameAtFirst) {
  const Bytes expected = *make(setup_in(Precision::fp32))->weights();
  EXPECT_EQ(*make(setup_in(Precision::bf16))->weights(), expected);
  EXPECT_EQ(*make(setup_in(Precision::fp16))->weights(), expected);
}

TEST(Precision, MixedIsBf16OnACpuAndOthersAreTaken) {
  EXPECT_EQ(*choose_precision("mixed", kCpu, ""), Precision::bf16);
  for (const char* name : {"fp32", "bf16", "fp16", "fp64"}) {
    EXPECT_EQ(precision_name(*choose_precision(name, kCpu, "")), name);
  }
  EXPECT_EQ(choose_precision("fp8", kCpu, "").error().code, Code::invalid);
  EXPECT_EQ(choose_precision("mixed", kCuda, "/no/such.so").error().code, Code::not_found);
}

TEST(Fp16, AnOverflowSkipsTheStepAndChangesNothingButTheScale) {
  Learner::Setup setup = resnet_setup();
  setup.precision = Precision::fp16;
  setup.ema = 0.5;
  setup.label_smoothing = 0.1;
  const auto learner = make(setup);
  // A loss scale that no gradient survives.
  const Bytes first = *learner->save();
  Safetensors state = *parse_safetensors(first);
  const float huge = 0x1p100F;
  for (TensorView& tensor : state.tensors) {
    if (tensor.name == "scaler.scale") {
      tensor.data = {reinterpret_cast<const char*>(&huge), sizeof huge};
    }
  }
  ASSERT_TRUE(learner->load(state).has_value());
  const auto result = train_on(*learner, batch_of(0), 0, 0.1);
  ASSERT_TRUE(result.has_value()) << result.error().to_string();
  EXPECT_TRUE(result->is_skipped);
  const Bytes after = *learner->save();
  EXPECT_EQ(numbers_in(after, "scaler.scale"), std::vector<float>{0x1p99F});
  const Safetensors left = *parse_safetensors(after);
  for (size_t i = 0; i < left.tensors.size(); ++i) {
    if (left.tensors[i].name == "scaler.scale") continue;
    EXPECT_EQ(left.tensors[i].data, state.tensors[i].data) << left.tensors[i].name;
  }
}

TEST(Fp16, AGradientThatOverflowsAtEveryScaleIsDivergence) {
  Learner::Setup setup = setup_in(Precision::fp16);
  setup.model.stddev = {1e-7};  // the images themselves are infinite in fp16
  const auto learner = make(setup);
  int skipped = 0;
  Result<StepResult> result = StepResult{};
  for (int64_t step = 0; step < 40; ++step) {
    result = train_on(*learner, batch_of(step), step, 0.1);
    if (!result.has_value()) break;
    EXPECT_TRUE(result->is_skipped);
    ++skipped;
  }
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::out_of_range);
  EXPECT_EQ(skipped, 16);  // 65536 to 1
}

TEST(Pieces, AreTheSameStepWhereNothingLooksAcrossSamples) {
  Learner::Setup whole = setup_in(Precision::fp64);
  whole.optimizer.weight_decay = 0.01;
  for (const int64_t pieces : {2, 5, 12, 100}) {
    Learner::Setup split = whole;
    split.accumulate = pieces;
    const auto one = make(whole);
    const auto other = make(split);
    for (int64_t step = 0; step < 3; ++step) {
      const auto expected = train_on(*one, batch_of(step), step, 0.1);
      const auto got = train_on(*other, batch_of(step), step, 0.1);
      ASSERT_TRUE(got.has_value()) << got.error().to_string();
      EXPECT_NEAR(got->loss, expected->loss, 1e-12) << pieces;
      EXPECT_EQ(got->correct, expected->correct);
    }
  }
}

TEST(MovingAverage, IsWhatIsEvaluatedAndExportedAndFollowsTheWeights) {
  Learner::Setup setup = setup_in(Precision::fp32);
  setup.ema = 0.75;
  const auto learner = make(setup);
  std::vector<float> expected = numbers_in(*learner->save(), "model.fc2.weight");
  for (int64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(train_on(*learner, batch_of(step), step, 0.1).has_value());
    const std::vector<float> weights = numbers_in(*learner->save(), "model.fc2.weight");
    for (size_t i = 0; i < weights.size(); ++i) {
      expected[i] = 0.75F * expected[i] + 0.25F * weights[i];
    }
  }
  const std::vector<float> average = numbers_in(*learner->weights(), "fc2.weight");
  ASSERT_EQ(average.size(), expected.size());
  for (size_t i = 0; i < average.size(); ++i) EXPECT_NEAR(average[i], expected[i], 1e-6);
  EXPECT_EQ(numbers_in(*learner->save(), "ema.fc2.weight"), average);

  const Bytes before = *learner->save();
  const auto of_average = evaluate_on(*learner, batch_of(9));
  EXPECT_EQ(*learner->save(), before);
  const auto plain = make(setup_in(Precision::fp32));
  const Bytes weights = *learner->weights();
  ASSERT_TRUE(plain->begin_with(*parse_safetensors(weights)).has_value());
  EXPECT_EQ(evaluate_on(*plain, batch_of(9))->loss, of_average->loss);
}

TEST(ImageSize, MayChangeFromStepToStepWhereTheNetworkTakesAny) {
  const auto learner = make(resnet_setup());
  Batch wide = batch_of(0);
  wide.shape = {1, 8, 16};
  wide.labels.resize(6);
  ASSERT_TRUE(train_on(*learner, batch_of(0), 0, 0.01).has_value());
  ASSERT_TRUE(train_on(*learner, wide, 1, 0.01).has_value());
  EXPECT_EQ(evaluate_on(*learner, wide)->samples, 6);
  EXPECT_EQ(evaluate_on(*learner, batch_of(0))->samples, 12);
}

}  // namespace
}  // namespace tern
