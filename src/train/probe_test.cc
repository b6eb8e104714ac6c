#include "train/probe.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "train/memory_estimate.h"

namespace tern {
namespace {

TEST(LargestThatFits, IsFoundToASixteenthWithFewTries) {
  for (const int64_t limit : {1, 2, 3, 17, 100, 255, 256, 700, 1000}) {
    int tries = 0;
    const auto found = largest_that_fits(1024, [&](int64_t batch) -> Result<bool> {
      ++tries;
      EXPECT_LT(batch, 1024) << "known not to fit";
      return batch <= limit;
    });
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(*found, limit);
    EXPECT_GE(*found, limit - std::max<int64_t>(1, limit / 16)) << limit;
    EXPECT_LE(tries, 20);
  }
}

TEST(LargestThatFits, IsNoneWhereNotEvenOneSampleDoes) {
  const auto never = [](int64_t) -> Result<bool> { return false; };
  EXPECT_EQ(*largest_that_fits(512, never), 0);
  EXPECT_EQ(*largest_that_fits(1, never), 0);
  EXPECT_EQ(*largest_that_fits(2, never), 0);
  EXPECT_EQ(*largest_that_fits(2, [](int64_t) -> Result<bool> { return true; }), 1);
}

TEST(LargestThatFits, AFailureThatIsNotAboutMemoryEndsTheSearch) {
  const auto found =
      largest_that_fits(64, [](int64_t) -> Result<bool> { return fail(Code::internal, "broken"); });
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, Code::internal);
}

TEST(AvailableMemory, IsWhatTheKernelSaysAndNoneIfItSaysNothing) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "available-memory";
  std::filesystem::create_directories(root / "proc");
  EXPECT_EQ(available_memory_bytes(root / "nothing"), 0);
  std::ofstream(root / "proc/meminfo") << "MemTotal: 4000 kB\nMemAvailable:   1500 kB\n";
  EXPECT_EQ(available_memory_bytes(root), 1500 * 1024);
  std::filesystem::remove_all(root);
}

Learner::Setup small_network(int64_t side) {
  Learner::Setup setup;
  setup.model.width = 8;
  setup.shape = {.channels = 1, .height = side, .width = side};
  setup.classes = 10;
  return setup;
}

TEST(MemoryEstimate, HoldsWeightsGradientsMomentumAndGrowsWithTheImages) {
  const auto small = estimate_memory(small_network(16));
  const auto large = estimate_memory(small_network(32));
  ASSERT_TRUE(small.has_value()) << small.error().to_string();
  ASSERT_TRUE(large.has_value()) << large.error().to_string();
  EXPECT_GE(small->train.at(0), 3 * 4 * small->parameters);
  // Four times the pixels, where activations outweigh the rest.
  constexpr int64_t kMany = 100'000;
  EXPECT_GT(large->train.at(kMany), 3 * small->train.at(kMany));
  EXPECT_LT(large->train.at(kMany), 5 * small->train.at(kMany));
  EXPECT_LT(small->evaluate.at(kMany), small->train.at(kMany)) << "nothing is kept for gradients";
  EXPECT_GT(small->checkpoint_bytes, 2 * 4 * small->parameters) << "weights and momentum";
  EXPECT_GT(small->weights_bytes, 4 * small->parameters);
}

TEST(MemoryEstimate, ABatchInPiecesTakesLessAndALargeEvaluationCounts) {
  const MemoryEstimate estimate{.train = {{{.fixed = 1000, .per_sample = 100}, {.fixed = 1500}}},
                                .evaluate = {{{.fixed = 500, .per_sample = 10}}},
                                .input_bytes_per_sample = 4};
  EXPECT_EQ(estimate.at(/*batch=*/64, /*pieces=*/1, /*evaluate_batch=*/0), 7400);
  EXPECT_EQ(estimate.at(64, 4, 0), 1000 + 16 * 100 + 48 * 4);
  EXPECT_EQ(estimate.at(64, 1, 1000), 10'500);
  EXPECT_EQ(estimate.at(2, 1, 0), 1500) << "another moment is the worst";
  EXPECT_EQ(estimate.with_pixels(4).at(64, 1, 0), 1000 + 64 * 400);
}

TEST(MemoryEstimate, AResnetMeasuredSmallAgreesWithOneMeasuredLarge) {
  Learner::Setup setup;
  setup.model.name = "resnet18";
  setup.classes = 10;
  setup.shape = {.channels = 3, .height = 96, .width = 96};
  const auto large = estimate_memory(setup);
  ASSERT_TRUE(large.has_value()) << large.error().to_string();
  setup.shape = shape_to_measure(setup.model.name, setup.shape);
  EXPECT_EQ(setup.shape.height, 32);
  const auto small = estimate_memory(setup);
  ASSERT_TRUE(small.has_value()) << small.error().to_string();
  const auto measured = static_cast<double>(large->at(256, 1, 0));
  EXPECT_NEAR(static_cast<double>(small->with_pixels(9).at(256, 1, 0)), measured, 0.15 * measured);
}

TEST(MemoryEstimate, ANetworkThatCannotTakeTheImagesIsRefused) {
  const auto estimate = estimate_memory(small_network(1));
  ASSERT_FALSE(estimate.has_value());
  EXPECT_EQ(estimate.error().code, Code::invalid);
}

}  // namespace
}  // namespace tern
