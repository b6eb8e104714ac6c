// The learner on a real GPU. Skips where there is none.
//
// Carried to another machine, TERN_TEST_KERNELS names libtern_cuda.so there; LD_LIBRARY_PATH has
// LibTorch's folders and CUBLAS_WORKSPACE_CONFIG is as trainer_environment() sets it (docs/gpu.md).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "train/collectives.h"
#include "train/device.h"
#include "train/learner.h"
#include "train/test_learner.h"

namespace tern {
namespace {

class GpuLearner : public testing::Test {
 protected:
  void SetUp() override {
    const char* given = std::getenv("TERN_TEST_KERNELS");
    kernels_ = given == nullptr ? TERN_KERNELS : given;
    const Status ready = open_cuda(/*gpus_are_hidden=*/false);
    if (!ready.has_value()) GTEST_SKIP() << ready.error().message;
    if (kernels_.empty()) GTEST_SKIP() << "this build has no libtern_cuda.so (scripts/fetch-nvcc)";
    if (std::getenv("CUBLAS_WORKSPACE_CONFIG") == nullptr) {
      GTEST_SKIP() << "set CUBLAS_WORKSPACE_CONFIG=:4096:8";
    }
  }

  Learner::Setup on_gpu(Learner::Setup setup, Precision precision) const {
    setup.device = kCuda;
    setup.kernels = kernels_;
    setup.precision = precision;
    return setup;
  }

  // The batches [begin, end), their results in order, however late.
  static std::vector<StepResult> train(Learner& learner, int64_t begin, int64_t end) {
    std::vector<StepResult> all;
    const auto add = [&](const Result<StepResults>& results) {
      ASSERT_TRUE(results.has_value()) << results.error().to_string();
      all.insert(all.end(), results->begin(), results->end());
    };
    for (int64_t step = begin; step < end; ++step) {
      EXPECT_TRUE(learner.put(batch_of(step, 48)).has_value());
      add(learner.step(step, 0.02));
    }
    add(learner.finish_steps());
    EXPECT_EQ(all.size(), static_cast<size_t>(end - begin));
    return all;
  }

  std::string kernels_;
};

// One GPU is all that is needed: its sums are its own, and take the way that several ranks' take.
TEST_F(GpuLearner, AGroupOfOneAddsUpByNcclAndComputesWhatOneAloneDoes) {
  SystemClock clock;
  Graveyard graveyard;
  for (const Learner::Setup& network : {small_setup(), resnet_setup()}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(network.model.name + " " + std::string(precision_name(precision)));
      const Learner::Setup setup = on_gpu(network, precision);
      const auto alone = make(setup);
      const auto expected = train(*alone, 0, 6);
      const auto group = Collectives::open(
          {.address = "127.0.0.1", .has_gpu = true, .clock = &clock, .graveyard = &graveyard});
      ASSERT_TRUE(group.has_value()) << group.error().to_string();
      const auto together = make(setup);
      ASSERT_TRUE(together->join(group->get()).has_value());
      for (int64_t step = 0; step < 6; ++step) {
        ASSERT_TRUE(together->put(batch_of(step, 48)).has_value());
        RankStep exchange{.samples_planned = 48, .own_samples = 48};
        const Result<StepResults> results = together->step_together(step, 0.02, exchange);
        ASSERT_TRUE(results.has_value()) << results.error().to_string();
        ASSERT_EQ(results->size(), 1u);
        EXPECT_NEAR((*results)[0].loss, expected[static_cast<size_t>(step)].loss, 1e-3);
      }
      ASSERT_TRUE(together->join(nullptr).has_value());
    }
  }
}

constexpr Precision kAll[] = {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp64};

TEST_F(GpuLearner, GoesOnFromASavedStateToTheBitInEachPrecision) {
  for (const Learner::Setup& network : {small_setup(), resnet_setup()}) {
    for (const Precision precision : kAll) {
      SCOPED_TRACE(network.model.name + " " + std::string(precision_name(precision)));
      Learner::Setup setup = on_gpu(network, precision);
      setup.ema = 0.8;
      setup.accumulate = 2;
      setup.optimizer.clip_norm = 5;
      const auto whole = make(setup);
      train(*whole, 0, 3);
      const Bytes saved = *whole->save();
      const auto expected = train(*whole, 3, 9);
      const auto resumed = make(setup);
      train(*resumed, 20, 21);
      ASSERT_TRUE(resumed->load(*parse_safetensors(saved)).has_value());
      const auto got = train(*resumed, 3, 9);
      for (size_t i = 0; i < got.size() && i < expected.size(); ++i) {
        EXPECT_EQ(got[i].step, expected[i].step);
        EXPECT_EQ(got[i].loss, expected[i].loss) << i;
        EXPECT_EQ(got[i].correct, expected[i].correct) << i;
      }
      EXPECT_EQ(*resumed->save(), *whole->save());
      EXPECT_EQ(evaluate_on(*resumed, batch_of(50))->loss, evaluate_on(*whole, batch_of(50))->loss);
    }
  }
}

TEST_F(GpuLearner, ComputesWhatTheCpuComputes) {
  for (Learner::Setup network : {small_setup(), resnet_setup()}) {
    network.model.dropout = 0;  // drawn otherwise on a GPU
    Learner::Setup cpu = network;
    cpu.precision = Precision::fp64;
    const auto exact = make(cpu);
    const auto learner = make(on_gpu(network, Precision::fp64));
    // The memory format does not show in files.
    EXPECT_EQ(*learner->save(), *exact->save());
    const auto got = train(*learner, 0, 5);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto step = static_cast<int64_t>(i);
      const auto expected = train_on(*exact, batch_of(step, 48), step, 0.02);
      EXPECT_NEAR(got[i].loss, expected->loss, 1e-9) << network.model.name << i;
      EXPECT_EQ(got[i].correct, expected->correct);
    }
    const auto mine = evaluate_on(*learner, batch_of(70, 30));
    const auto theirs = evaluate_on(*exact, batch_of(70, 30));
    EXPECT_NEAR(mine->loss, theirs->loss, 1e-7);
    EXPECT_EQ(mine->class_top1, theirs->class_top1);
    EXPECT_EQ(mine->top5, theirs->top5);
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      const auto first = train(*make(on_gpu(network, precision)), 0, 1);
      const double digits = precision == Precision::fp32 ? 1e-3 : 5e-2;  // convolutions in TF32
      EXPECT_NEAR(first[0].loss, got[0].loss, digits) << precision_name(precision);
    }
  }
}

TEST_F(GpuLearner, AnOverflowSkipsTheStepAndChangesNothingButTheScale) {
  Learner::Setup setup = on_gpu(resnet_setup(), Precision::fp16);
  setup.ema = 0.5;
  const auto learner = make(setup);
  const Bytes first = *learner->save();
  Safetensors state = *parse_safetensors(first);
  const float huge = 0x1p100F;
  for (TensorView& tensor : state.tensors) {
    if (tensor.name == "scaler.scale") {
      tensor.data = {reinterpret_cast<const char*>(&huge), sizeof huge};
    }
  }
  ASSERT_TRUE(learner->load(state).has_value());
  const auto results = train(*learner, 0, 2);
  EXPECT_TRUE(results.at(0).is_skipped);
  EXPECT_TRUE(results.at(1).is_skipped);
  const Bytes after = *learner->save();
  EXPECT_EQ(numbers_in(after, "scaler.scale"), std::vector<float>{0x1p98F});
  const Safetensors left = *parse_safetensors(after);
  for (size_t i = 0; i < left.tensors.size(); ++i) {
    if (left.tensors[i].name == "scaler.scale") continue;
    EXPECT_EQ(left.tensors[i].data, state.tensors[i].data) << left.tensors[i].name;
  }
}

TEST_F(GpuLearner, DivergesInEachPrecision) {
  for (const Precision precision : kAll) {
    Learner::Setup setup = on_gpu(small_setup(), precision);
    setup.model.stddev = {precision == Precision::fp64 ? 1e-300 : 1e-38};
    const auto learner = make(setup);
    Result<StepResults> results = StepResults{};
    for (int64_t step = 0; step < 60 && results.has_value(); ++step) {
      ASSERT_TRUE(learner->put(batch_of(step)).has_value());
      results = learner->step(step, 1e6);
    }
    if (results.has_value()) results = learner->finish_steps();
    ASSERT_FALSE(results.has_value()) << precision_name(precision);
    EXPECT_EQ(results.error().code, Code::out_of_range) << results.error().message;
  }
}

TEST_F(GpuLearner, MixedIsWhatTheGpuHas) {
  const auto precision = choose_precision("mixed", kCuda, kernels_);
  ASSERT_TRUE(precision.has_value()) << precision.error().to_string();
  EXPECT_TRUE(*precision == Precision::bf16 || *precision == Precision::fp16);
}

TEST_F(GpuLearner, TheFingerprintIsTheSameTwice) {
  for (const Precision precision : kAll) {
    const Learner::Setup setup = on_gpu(resnet_setup(), precision);
    const auto once = arithmetic_fingerprint(setup);
    ASSERT_TRUE(once.has_value()) << once.error().to_string();
    EXPECT_EQ(*arithmetic_fingerprint(setup), *once);
  }
}

}  // namespace
}  // namespace tern
