#include "cuda/prepare_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tern {
namespace {

using testing::ElementsAre;

// 2 rows of 3 pixels, normalised to their own values: mean 0, and stddev 1/255 undoes the scaling
// to within a rounding.
std::vector<int> cropped(TernCudaCrop crop) {
  const std::array<uint8_t, 6> image = {1, 2, 3, 4, 5, 6};
  const float mean = 0.0F;
  const float stddev = 1.0F / 255.0F;
  std::array<float, 6> out{};
  prepare_reference({.images = image.data(),
                     .crops = &crop,
                     .mean = &mean,
                     .stddev = &stddev,
                     .out = out.data(),
                     .count = 1,
                     .channels = 1,
                     .height = 2,
                     .width = 3,
                     .type = TERN_CUDA_F32});
  std::vector<int> pixels;
  for (const float value : out) pixels.push_back(static_cast<int>(std::lround(value)));
  return pixels;
}

TEST(PrepareReference, CropsThenMirrors) {
  EXPECT_THAT(cropped({}), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(cropped({.mirror = 1}), ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(cropped({.down = 1}), ElementsAre(4, 5, 6, 0, 0, 0));
  EXPECT_THAT(cropped({.down = -1}), ElementsAre(0, 0, 0, 1, 2, 3));
  EXPECT_THAT(cropped({.right = 1}), ElementsAre(2, 3, 0, 5, 6, 0));
  EXPECT_THAT(cropped({.right = 1, .mirror = 1}), ElementsAre(0, 3, 2, 0, 6, 5));
  EXPECT_THAT(cropped({.down = 1, .right = -2, .mirror = 1}), ElementsAre(4, 0, 0, 0, 0, 0));
  EXPECT_THAT(cropped({.down = 127, .right = -128}), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(PrepareReference, NhwcPutsAPixelsChannelsTogether) {
  const std::array<uint8_t, 8> images = {0, 51, 102, 153, 204, 255, 0, 51};  // 2 of 2 x 1 x 2
  const std::array<float, 2> mean = {0.0F, 1.0F};
  const std::array<float, 2> stddev = {0.2F, 0.2F};
  std::array<float, 8> out{};
  prepare_reference({.images = images.data(),
                     .mean = mean.data(),
                     .stddev = stddev.data(),
                     .out = out.data(),
                     .count = 2,
                     .channels = 2,
                     .height = 1,
                     .width = 2,
                     .type = TERN_CUDA_F32,
                     .layout = TERN_CUDA_NHWC});
  std::vector<int> values;
  for (const float value : out) values.push_back(static_cast<int>(std::lround(value)));
  EXPECT_THAT(values, ElementsAre(0, -3, 1, -2, 4, -5, 5, -4));
}

// CIFAR-10's first channel and Fashion-MNIST's; what LibTorch's CPU gives for
// to(kFloat32).div_(255).sub_(mean).div_(stddev), by its bits.
TEST(PrepareReference, NormalisesEachChannelWithTheCpusRoundings) {
  const std::array<uint8_t, 6> images = {0, 1, 255, 0, 128, 255};
  const std::array<float, 2> mean = {0.4914F, 0.2860F};
  const std::array<float, 2> stddev = {0.2470F, 0.3530F};
  std::array<float, 6> out{};
  TernCudaPrepare prepare = {.images = images.data(),
                             .mean = mean.data(),
                             .stddev = stddev.data(),
                             .out = out.data(),
                             .count = 1,
                             .channels = 2,
                             .height = 1,
                             .width = 3,
                             .type = TERN_CUDA_F32};
  prepare_reference(prepare);
  std::vector<uint32_t> bits;
  for (const float value : out) bits.push_back(std::bit_cast<uint32_t>(value));
  EXPECT_THAT(bits, ElementsAre(0xBFFEA713U, 0xBFFC9ED3U, 0x4003C873U, 0xBF4F6929U, 0x3F1C9E13U,
                                0x4001734FU));

  std::array<uint16_t, 6> half{};
  prepare.out = half.data();
  prepare.type = TERN_CUDA_F16;
  prepare_reference(prepare);
  EXPECT_THAT(half, ElementsAre(0xBFF5, 0xBFE5, 0x401E, 0xBA7B, 0x38E5, 0x400C));
  prepare.type = TERN_CUDA_BF16;
  prepare_reference(prepare);
  EXPECT_THAT(half, ElementsAre(0xBFFF, 0xBFFD, 0x4004, 0xBF4F, 0x3F1D, 0x4001));
}

TEST(PrepareReference, RoundsToF16) {
  EXPECT_EQ(to_f16(0.0F), 0x0000);
  EXPECT_EQ(to_f16(-0.0F), 0x8000);
  EXPECT_EQ(to_f16(1.0F), 0x3C00);
  EXPECT_EQ(to_f16(-2.0F), 0xC000);
  EXPECT_EQ(to_f16(0x1.002p0F), 0x3C00);  // a tie: to even, down
  EXPECT_EQ(to_f16(0x1.006p0F), 0x3C02);  // a tie: to even, up
  EXPECT_EQ(to_f16(0x1.002002p0F), 0x3C01);
  EXPECT_EQ(to_f16(0x1.ffep0F), 0x4000);  // rounds into the next exponent
  EXPECT_EQ(to_f16(65504.0F), 0x7BFF);
  EXPECT_EQ(to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(to_f16(0x1p-14F), 0x0400);
  EXPECT_EQ(to_f16(0x1.ff8p-15F), 0x03FF);
  EXPECT_EQ(to_f16(0x1.ffcp-15F), 0x0400);  // a tie, out of the smallest
  EXPECT_EQ(to_f16(0x1p-24F), 0x0001);
  EXPECT_EQ(to_f16(0x1p-25F), 0x0000);  // a tie: to even
  EXPECT_EQ(to_f16(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(to_f16(-0x1p-40F), 0x8000);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::quiet_NaN()), 0x7E00);
}

TEST(PrepareReference, RoundsToBf16) {
  EXPECT_EQ(to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(to_bf16(-0.0F), 0x8000);
  EXPECT_EQ(to_bf16(0x1.01p0F), 0x3F80);  // a tie: to even, down
  EXPECT_EQ(to_bf16(0x1.03p0F), 0x3F82);  // a tie: to even, up
  EXPECT_EQ(to_bf16(0x1.010002p0F), 0x3F81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::quiet_NaN()), 0x7FC0);
}

}  // namespace
}  // namespace tern
