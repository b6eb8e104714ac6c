// That a state saved at any step goes on to the bit, whatever the learner keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "train/learner.h"
#include "train/test_learner.h"

namespace tern {
namespace {

struct Kind {
  const char* name;
  std::function<void(Learner::Setup&)> change;
  std::vector<int64_t> begins = {0, 1, 4};  // where it is interrupted
  int64_t steps = 7;
};

class EachKind : public testing::TestWithParam<Kind> {
 protected:
  static Learner::Setup setup() {
    Learner::Setup setup = small_setup();
    GetParam().change(setup);
    return setup;
  }
};

StepResult train_step(Learner& learner, int64_t step) {
  // 11 samples, so that pieces differ in size.
  const auto result = train_on(learner, batch_of(step, 11), step, 0.05);
  EXPECT_TRUE(result.has_value()) << result.error().to_string();
  return result.value_or({});
}

TEST_P(EachKind, GoesOnFromASavedStateToTheBit) {
  const auto whole = make(setup());
  std::map<int64_t, Bytes> states;
  std::vector<StepResult> results;
  for (int64_t step = 0; step < GetParam().steps; ++step) {
    states[step] = *whole->save();
    results.push_back(train_step(*whole, step));
    // Evaluating is nothing that a resumed run must repeat.
    ASSERT_TRUE(evaluate_on(*whole, batch_of(100)).has_value());
  }
  const auto skipped = std::count_if(results.begin(), results.end(),
                                     [](const StepResult& step) { return step.is_skipped; });
  EXPECT_EQ(skipped > 0, setup().precision == Precision::fp16);
  EXPECT_LT(skipped, GetParam().steps);
  const Bytes expected_end = *whole->save();
  for (const int64_t begin : GetParam().begins) {
    const auto resumed = make(setup());
    train_step(*resumed, 99);  // what it was before does not matter
    ASSERT_TRUE(resumed->load(*parse_safetensors(states[begin])).has_value());
    EXPECT_EQ(*resumed->save(), states[begin]);
    for (int64_t step = begin; step < GetParam().steps; ++step) {
      const StepResult expected = results[static_cast<size_t>(step)];
      const StepResult got = train_step(*resumed, step);
      EXPECT_EQ(got.loss, expected.loss) << step;
      EXPECT_EQ(got.correct, expected.correct) << step;
      EXPECT_EQ(got.is_skipped, expected.is_skipped) << step;
    }
    EXPECT_EQ(*resumed->save(), expected_end);
    EXPECT_EQ(*resumed->weights(), *whole->weights());
    EXPECT_EQ(evaluate_on(*resumed, batch_of(50))->loss, evaluate_on(*whole, batch_of(50))->loss);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Learner, EachKind,
    testing::Values(Kind{"Plain", [](Learner::Setup&) {}},
                    Kind{"NoMomentum", [](Learner::Setup& setup) { setup.optimizer.momentum = 0; }},
                    Kind{"MovingAverage", [](Learner::Setup& setup) { setup.ema = 0.8; }},
                    Kind{"Pieces", [](Learner::Setup& setup) { setup.accumulate = 3; }},
                    Kind{"Clipped", [](Learner::Setup& setup) { setup.optimizer.clip_norm = 0.3; }},
                    Kind{"DecayOfWeights",
                         [](Learner::Setup& setup) {
                           setup.optimizer.weight_decay = 0.01;
                           setup.optimizer.weight_decay_on = "weights";
                           setup.optimizer.nesterov = true;
                         }},
                    Kind{"Fp64", [](Learner::Setup& setup) { setup.precision = Precision::fp64; }},
                    Kind{"Bf16", [](Learner::Setup& setup) { setup.precision = Precision::bf16; }},
                    Kind{"Fp16",
                         [](Learner::Setup& setup) {
                           setup.precision = Precision::fp16;
                           setup.ema = 0.8;
                           // Such large inputs that the first scales overflow and a later one does
                           // not.
                           setup.model.stddev = {0.002};
                         }},
                    Kind{"ResNet",
                         [](Learner::Setup& setup) {
                           setup.model = resnet_setup().model;
                           setup.ema = 0.8;
                           setup.accumulate = 2;
                         }}),
    [](const testing::TestParamInfo<Kind>& kind) { return kind.param.name; });

TEST(LearnerBranch, WhatAFileDoesNotHoldBeginsAnewAndWhatIsNotKeptIsLeftOut) {
  const auto plain = make(small_setup());
  Learner::Setup more = small_setup();
  more.ema = 0.9;
  more.precision = Precision::fp16;
  const auto averaged = make(more);
  ASSERT_TRUE(train_on(*averaged, batch_of(0), 0, 0.1).has_value());
  ASSERT_TRUE(train_on(*plain, batch_of(0), 0, 0.1).has_value());

  const Bytes without = *plain->save();
  ASSERT_TRUE(averaged->load(*parse_safetensors(without)).has_value());
  EXPECT_EQ(*averaged->weights(), *plain->weights());
  EXPECT_EQ(numbers_in(*averaged->save(), "scaler.scale"), std::vector<float>{65536});

  ASSERT_TRUE(train_on(*averaged, batch_of(1), 1, 0.1).has_value());
  const Bytes with = *averaged->save();
  ASSERT_TRUE(plain->load(*parse_safetensors(with)).has_value());
  EXPECT_EQ(numbers_in(*plain->weights(), "fc2.weight"), numbers_in(with, "model.fc2.weight"));
}

TEST(LearnerBranch, APartOfTheAverageIsRefusedByName) {
  Learner::Setup setup = small_setup();
  setup.ema = 0.9;
  const auto learner = make(setup);
  const Bytes before = *learner->save();
  Safetensors state = *parse_safetensors(before);
  std::erase_if(state.tensors, [](const auto& tensor) { return tensor.name == "ema.fc1.bias"; });
  const Status loaded = learner->load(state);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error().message.find("'ema.fc1.bias' is missing"), std::string::npos);
  EXPECT_EQ(*learner->save(), before);
}

}  // namespace
}  // namespace tern
