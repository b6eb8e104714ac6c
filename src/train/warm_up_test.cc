#include "train/warm_up.h"

#include <gtest/gtest.h>

#include "train/test_learner.h"

namespace tern {
namespace {

TEST(WarmUp, ItsFingerprintIsThatOfTheArithmetic) {
  const auto expected = arithmetic_fingerprint(small_setup());
  ASSERT_TRUE(expected.has_value()) << expected.error().to_string();
  WarmUp warm_up(small_setup());
  EXPECT_EQ(*warm_up.fingerprint(small_setup()), *expected);
  EXPECT_EQ(*warm_up.fingerprint(small_setup()), *expected) << "the second time";
}

TEST(WarmUp, OfAnotherNetworkTheStepIsTakenAgain) {
  Learner::Setup wider = small_setup();
  wider.model.width = 5;
  // Before the warm-up begins: both draw from LibTorch's generator.
  const auto expected = arithmetic_fingerprint(wider);
  const auto expected_of_small = arithmetic_fingerprint(small_setup());
  WarmUp warm_up(small_setup());
  EXPECT_EQ(*warm_up.fingerprint(wider), *expected);
  EXPECT_EQ(*warm_up.fingerprint(small_setup()), *expected_of_small);
}

TEST(WarmUp, WhatTheRunChoosesIsNoOtherNetwork) {
  Learner::Setup setup = small_setup();
  const std::string network = fingerprint_depends_on(setup);
  setup.seed = 99;
  setup.optimizer.momentum = 0.1;
  setup.label_smoothing = 0.1;
  setup.model.dropout = 0.9;
  setup.model.init = "weights.safetensors";
  setup.model.mean = {0.1};
  setup.accumulate = 3;
  setup.ema = 0.9;
  EXPECT_EQ(fingerprint_depends_on(setup), network);

  const auto is_another = [&network](auto change) {
    Learner::Setup other = small_setup();
    change(other);
    return fingerprint_depends_on(other) != network;
  };
  EXPECT_TRUE(is_another([](Learner::Setup& other) { other.model.width += 1; }));
  EXPECT_TRUE(is_another([](Learner::Setup& other) { other.model.name = "resnet18"; }));
  EXPECT_TRUE(is_another([](Learner::Setup& other) { other.shape.height += 1; }));
  EXPECT_TRUE(is_another([](Learner::Setup& other) { other.classes += 1; }));
  EXPECT_TRUE(is_another([](Learner::Setup& other) { other.threads += 1; }));
  EXPECT_TRUE(
      is_another([](Learner::Setup& other) { other.deterministic = !other.deterministic; }));
  EXPECT_TRUE(is_another([](Learner::Setup& other) { other.precision = Precision::bf16; }));
}

TEST(WarmUp, AStepThatFailsSaysWhyWhenItIsAskedFor) {
  Learner::Setup tiny = small_setup();
  tiny.model.name = "no such network";
  WarmUp warm_up(tiny);
  EXPECT_FALSE(warm_up.fingerprint(tiny).has_value());
  EXPECT_TRUE(warm_up.fingerprint(small_setup()).has_value());
}

TEST(WarmUp, ALearnerThatIsMadeAfterwardsIsTheSameToTheBit) {
  Learner::Setup setup = small_setup();
  setup.model.dropout = 0.5;
  const auto cold = make(setup);
  ASSERT_TRUE(train_on(*cold, batch_of(0), 0, 0.1).has_value());
  WarmUp warm_up(setup);
  warm_up.finish();
  const auto warm = make(setup);
  ASSERT_TRUE(train_on(*warm, batch_of(0), 0, 0.1).has_value());
  EXPECT_EQ(*warm->save(), *cold->save());
}

}  // namespace
}  // namespace tern
