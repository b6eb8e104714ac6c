#include "train/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "train/test_learner.h"

namespace tern {
namespace {

TEST(Learner, LearnsAndItsLossFalls) {
  const auto learner = make(small_setup());
  double first = 0, last = 0;
  for (int64_t step = 0; step < 60; ++step) {
    const auto result = train_on(*learner, batch_of(step), step, 0.05);
    ASSERT_TRUE(result.has_value()) << result.error().to_string();
    if (step == 0) first = result->loss;
    last = result->loss;
  }
  EXPECT_LT(last, first / 2);
  const auto sums = evaluate_on(*learner, batch_of(1000, 60));
  ASSERT_TRUE(sums.has_value());
  EXPECT_EQ(sums->samples, 60);
  EXPECT_GT(sums->top1, 50);
  EXPECT_GE(sums->top5, sums->top1);
  EXPECT_EQ(sums->class_samples, (std::vector<int64_t>{10, 10, 10, 10, 10, 10}));
  EXPECT_EQ(std::accumulate(sums->class_top1.begin(), sums->class_top1.end(), int64_t{0}),
            sums->top1);
}

TEST(Learner, SumsOfBatchesAreTheSumsOfTheWhole) {
  const auto learner = make(small_setup());
  const Batch whole = batch_of(3, 12);
  const auto expected = evaluate_on(*learner, whole);
  EvaluationSums sums;  // knows no classes yet
  sums += *evaluate_on(*learner, part_of(whole, 0, 5));
  sums += *evaluate_on(*learner, part_of(whole, 5, 5));
  sums += *evaluate_on(*learner, part_of(whole, 5, 12));
  EXPECT_NEAR(sums.loss, expected->loss, 1e-5);
  EXPECT_EQ(sums.top1, expected->top1);
  EXPECT_EQ(sums.top5, expected->top5);
  EXPECT_EQ(sums.samples, 12);
  EXPECT_EQ(sums.class_samples, expected->class_samples);
  EXPECT_EQ(sums.class_top1, expected->class_top1);
}

TEST(Learner, PredictsTheClassesThatItEvaluatesBestFirst) {
  const auto learner = make(small_setup());
  for (int64_t step = 0; step < 20; ++step) {
    ASSERT_TRUE(train_on(*learner, batch_of(step), step, 0.05).has_value());
  }
  const Batch batch = batch_of(77, 24);
  const auto sums = evaluate_on(*learner, batch);
  const auto predictions = learner->predict(9);  // more than there are classes
  ASSERT_TRUE(predictions.has_value()) << predictions.error().to_string();
  ASSERT_EQ(predictions->size(), 24U);
  int64_t right = 0;
  double loss = 0;
  for (size_t i = 0; i < 24; ++i) {
    const auto& guesses = (*predictions)[i].guesses;
    ASSERT_EQ(guesses.size(), 6U);
    right += guesses[0].label == batch.labels[i] ? 1 : 0;
    double total = 0;
    for (size_t k = 0; k < guesses.size(); ++k) {
      total += guesses[k].probability;
      EXPECT_LE(guesses[k].probability, guesses[k > 0 ? k - 1 : 0].probability);
      if (guesses[k].label == batch.labels[i]) loss -= std::log(guesses[k].probability);
    }
    EXPECT_NEAR(total, 1, 1e-5);
  }
  EXPECT_EQ(right, sums->top1);
  EXPECT_NEAR(loss, sums->loss, 1e-3);
  EXPECT_EQ((*learner->predict(2))[0].guesses.size(), 2U);
}

TEST(Learner, ANetworkThatIsNoNumberIsRightNowhere) {
  const auto learner = make(small_setup());
  const Bytes bytes = *learner->weights();
  Safetensors file = *parse_safetensors(bytes);
  const std::vector<float> nan(6, std::nanf(""));
  for (TensorView& tensor : file.tensors) {
    if (tensor.name != "fc2.bias") continue;
    tensor.data = {reinterpret_cast<const char*>(nan.data()), nan.size() * sizeof(float)};
  }
  ASSERT_TRUE(learner->begin_with(file).has_value());
  const auto sums = evaluate_on(*learner, batch_of(0));
  ASSERT_TRUE(sums.has_value());
  EXPECT_EQ(sums->top1, 0);
  EXPECT_EQ(sums->top5, 0);
}

TEST(Learner, ABatchOfWhichNothingIsLeftIsAnErrorToTrainOnAndNoneToEvaluate) {
  const auto learner = make(small_setup());
  const Batch empty = part_of(batch_of(0), 0, 0);
  ASSERT_TRUE(learner->put(empty).has_value());
  const auto step = learner->step(0, 0.1);
  ASSERT_FALSE(step.has_value());
  EXPECT_EQ(step.error().code, Code::corrupt);
  EXPECT_EQ(learner->evaluate()->samples, 0);
  EXPECT_TRUE(learner->predict(3)->empty());
}

TEST(Learner, FirstWeightsFollowFromTheSeedAlone) {
  const auto one = make(small_setup());
  const auto same = make(small_setup());
  Learner::Setup other_seed = small_setup();
  other_seed.seed = 6;
  const auto other = make(other_seed);
  EXPECT_EQ(*one->save(), *same->save());
  EXPECT_NE(*one->save(), *other->save());
}

TEST(Learner, GoesOnFromASavedStateToTheBit) {
  const auto whole = make(small_setup());
  const auto first = make(small_setup());
  for (int64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(train_on(*whole, batch_of(step), step, 0.1).has_value());
    ASSERT_TRUE(train_on(*first, batch_of(step), step, 0.1).has_value());
  }
  const Bytes saved = *first->save();
  const auto second = make(small_setup());
  ASSERT_TRUE(second->load(*parse_safetensors(saved)).has_value());
  EXPECT_EQ(*second->save(), saved);
  for (int64_t step = 4; step < 9; ++step) {
    const auto expected = train_on(*whole, batch_of(step), step, 0.1);
    const auto resumed = train_on(*second, batch_of(step), step, 0.1);
    EXPECT_EQ(resumed->loss, expected->loss) << step;
  }
  EXPECT_EQ(*second->save(), *whole->save());
}

TEST(Learner, DropoutDependsOnTheStepAndNotOnWhatCameBefore) {
  Learner::Setup setup = small_setup();
  setup.model.dropout = 0.5;
  const auto one = make(setup);
  const auto two = make(setup);
  ASSERT_TRUE(evaluate_on(*two, batch_of(3)).has_value());
  EXPECT_EQ(train_on(*one, batch_of(0), 7, 0.1)->loss, train_on(*two, batch_of(0), 7, 0.1)->loss);
  const auto three = make(setup);
  const auto four = make(setup);
  EXPECT_NE(train_on(*three, batch_of(0), 7, 0.1)->loss,
            train_on(*four, batch_of(0), 8, 0.1)->loss);
}

TEST(Learner, AStateThatDoesNotFitIsRefusedByNameAndChangesNothing) {
  const auto learner = make(small_setup());
  const Bytes before = *learner->save();
  Safetensors state = *parse_safetensors(before);

  Safetensors missing = state;
  missing.tensors.pop_back();
  Safetensors extra = state;
  extra.tensors.push_back({"model.conv9.weight", "F32", {0}, ""});
  Safetensors misshaped = state;
  misshaped.tensors[0].shape.push_back(1);
  for (const auto* damaged : {&missing, &extra, &misshaped}) {
    const Status loaded = learner->load(*damaged);
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(loaded.error().code, Code::failed_precondition);
    EXPECT_EQ(*learner->save(), before);
  }
  EXPECT_NE(learner->load(missing).error().message.find(
                state.tensors.back().name.substr(std::string("model.").size())),
            std::string::npos);
}

TEST(Learner, ALossThatIsNoNumberIsAnError) {
  const auto learner = make(small_setup());
  Result<StepResult> result = StepResult{};
  for (int64_t step = 0; step < 50 && result.has_value(); ++step) {
    result = train_on(*learner, batch_of(step), step, 1e6);
  }
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::out_of_range);
}

TEST(Learner, LabelSmoothingRaisesTheTrainingLossOnly) {
  Learner::Setup smooth = small_setup();
  smooth.model.dropout = 0;
  Learner::Setup plain = smooth;
  smooth.label_smoothing = 0.5;
  const auto a = make(smooth);
  const auto b = make(plain);
  EXPECT_EQ(evaluate_on(*a, batch_of(0))->loss, evaluate_on(*b, batch_of(0))->loss);
  EXPECT_NE(train_on(*a, batch_of(0), 0, 0.1)->loss, train_on(*b, batch_of(0), 0, 0.1)->loss);
}

TEST(Learner, TheFingerprintStandsForTheArithmeticAndNotForTheRun) {
  Learner::Setup setup = small_setup();
  const auto one = arithmetic_fingerprint(setup);
  ASSERT_TRUE(one.has_value()) << one.error().to_string();
  EXPECT_EQ(one->size(), 16U);
  setup.seed = 99;
  setup.optimizer.momentum = 0.1;
  setup.label_smoothing = 0.1;
  setup.model.dropout = 0.9;
  setup.accumulate = 3;
  setup.ema = 0.9;
  EXPECT_EQ(*arithmetic_fingerprint(setup), *one);
  setup.precision = Precision::bf16;
  EXPECT_NE(*arithmetic_fingerprint(setup), *one);
  setup.precision = Precision::fp32;
  setup.model.width = 5;
  EXPECT_NE(*arithmetic_fingerprint(setup), *one);
}

TEST(Learner, TakingTheFingerprintChangesNoRun) {
  const auto undisturbed = make(small_setup());
  const auto disturbed = make(small_setup());
  ASSERT_TRUE(train_on(*undisturbed, batch_of(0), 0, 0.1).has_value());
  ASSERT_TRUE(arithmetic_fingerprint(small_setup()).has_value());
  ASSERT_TRUE(train_on(*disturbed, batch_of(0), 0, 0.1).has_value());
  EXPECT_EQ(*disturbed->save(), *undisturbed->save());
}

TEST(Learner, WeightsHaveTheirPyTorchNames) {
  const auto learner = make(small_setup());
  const Bytes bytes = *learner->weights();
  const auto file = parse_safetensors(bytes);
  ASSERT_TRUE(file.has_value());
  std::vector<std::string> names;
  for (const auto& tensor : file->tensors) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv1.bias", "conv1.weight", "conv2.bias", "conv2.weight",
                                      "fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"}));
}

TEST(Learner, AWrongNumberOfMeansIsRefused) {
  Learner::Setup setup = small_setup();
  setup.model.mean = {0.5, 0.5};
  const auto learner = Learner::create(setup);
  ASSERT_FALSE(learner.has_value());
  EXPECT_EQ(learner.error().code, Code::invalid);
}

}  // namespace
}  // namespace tern
