#include "image/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/random.h"
#include "image/planes.h"
#include "image/resize_weights.h"
#include "image/simd_target.h"

namespace tern {
namespace {

using testing::Each;
using testing::ElementsAre;

Pixels noise(int32_t width, int32_t height, uint64_t seed) {
  Pixels pixels{.size = {width, height}};
  pixels.rgb.resize(static_cast<size_t>(3 * width * height));
  Random random(seed, Stream::fingerprint, 0);
  for (uint8_t& byte : pixels.rgb) byte = static_cast<uint8_t>(random.below(256));
  return pixels;
}

std::vector<uint8_t> resized(const Pixels& pixels, const View& view) {
  std::vector<uint8_t> out(static_cast<size_t>(3 * view.out_width * view.out_height), 7);
  Resizer().resize(pixels, view, out);
  return out;
}

// The definition in double: weights of one direction for result i, over pixels [begin, end).
struct ExactWeights {
  int32_t begin = 0;
  std::vector<double> weights;
};

ExactWeights exact_weights(double at, double length, int32_t size, int32_t results, int32_t i) {
  const double scale = length / results;
  const double support = std::max(scale, 1.0);
  const double centre = at + (i + 0.5) * scale;
  const auto begin = static_cast<int32_t>(std::floor(at));
  const auto end = std::min(static_cast<int32_t>(std::ceil(at + length)), size);
  ExactWeights exact{.begin = begin};
  double total = 0;
  for (int32_t k = begin; k < end; ++k) {
    exact.weights.push_back(std::max(0.0, 1 - std::abs(k + 0.5 - centre) / support));
    total += exact.weights.back();
  }
  for (double& weight : exact.weights) weight /= total;
  return exact;
}

// By definition: rows first, rounded to a level, then columns.
std::vector<uint8_t> defined(const Pixels& pixels, const View& view) {
  const auto out_width = static_cast<size_t>(view.out_width);
  const auto out_height = static_cast<size_t>(view.out_height);
  const auto width = static_cast<size_t>(pixels.size.width);
  const auto height = static_cast<size_t>(pixels.size.height);
  std::vector<uint8_t> out(3 * out_width * out_height);
  std::vector<double> narrow(out_width * height);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t x = 0; x < out_width; ++x) {
      const size_t result = view.mirror ? out_width - 1 - x : x;
      const ExactWeights exact = exact_weights(view.left, view.width, pixels.size.width,
                                               view.out_width, static_cast<int32_t>(result));
      for (size_t y = 0; y < height; ++y) {
        double sum = 0;
        for (size_t k = 0; k < exact.weights.size(); ++k) {
          const size_t pixel = y * width + static_cast<size_t>(exact.begin) + k;
          sum += exact.weights[k] * pixels.rgb[pixel * 3 + c];
        }
        narrow[y * out_width + x] = std::floor(sum + 0.5);
      }
    }
    for (size_t y = 0; y < out_height; ++y) {
      const ExactWeights exact = exact_weights(view.top, view.height, pixels.size.height,
                                               view.out_height, static_cast<int32_t>(y));
      for (size_t x = 0; x < out_width; ++x) {
        double sum = 0;
        for (size_t k = 0; k < exact.weights.size(); ++k) {
          sum += exact.weights[k] * narrow[(static_cast<size_t>(exact.begin) + k) * out_width + x];
        }
        out[(c * out_height + y) * out_width + x] = static_cast<uint8_t>(std::floor(sum + 0.5));
      }
    }
  }
  return out;
}

// weighted_sum() for every result: the bits that every machine must give.
std::vector<uint8_t> one_by_one(const Pixels& pixels, const View& view) {
  const TouchedPixels tx = touched_pixels(view.left, view.width, pixels.size.width);
  const TouchedPixels ty = touched_pixels(view.top, view.height, pixels.size.height);
  FilterAxis horizontal;
  FilterAxis vertical;
  fill_axis(tx, view.out_width, view.mirror ? Mirror::yes : Mirror::no, horizontal);
  fill_axis(ty, view.out_height, Mirror::no, vertical);
  const auto level = [&](int32_t c, int32_t row, int32_t x) {
    const int64_t first = int64_t{pixels.size.width} * (ty.begin + row) + tx.begin +
                          horizontal.first[static_cast<size_t>(x)];
    return weighted_sum(
        horizontal.taps, horizontal.count[static_cast<size_t>(x)], horizontal.of(x),
        [&](int32_t k) { return pixels.rgb[static_cast<size_t>((first + k) * 3 + c)]; });
  };
  std::vector<uint8_t> out;
  for (int32_t c = 0; c < 3; ++c) {
    for (int32_t y = 0; y < view.out_height; ++y) {
      const int32_t first = vertical.first[static_cast<size_t>(y)];
      const int32_t count = vertical.count[static_cast<size_t>(y)];
      for (int32_t x = 0; x < view.out_width; ++x) {
        out.push_back(weighted_sum(vertical.taps, count, vertical.of(y),
                                   [&](int32_t k) { return level(c, first + k, x); }));
      }
    }
  }
  return out;
}

struct Difference {
  int most = 0;
  double mean = 0;
};

Difference difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  Difference found;
  for (size_t i = 0; i < a.size(); ++i) {
    const int far = std::abs(int{a[i]} - int{b[i]});
    found.most = std::max(found.most, far);
    found.mean += far / static_cast<double>(a.size());
  }
  return found;
}

// Any part of any image, on whole pixels or between, larger or smaller.
struct Drawn {
  Pixels pixels;
  View view;
};

Drawn draw(uint64_t seed) {
  Random random(seed, Stream::augment, 0);
  const auto up_to = [&](uint32_t most) { return static_cast<int32_t>(1 + random.below(most)); };
  Drawn drawn{.pixels = noise(up_to(140), up_to(140), seed)};
  const bool is_whole = random.below(2) == 0;
  const auto part = [&](int32_t side, double& begin, double& length) {
    begin = std::min<double>(random.uniform() * static_cast<double>(side), side - 0.25);
    if (is_whole) begin = std::floor(begin);
    length = std::max((side - begin) * random.uniform(), std::min(1.0, side - begin));
    if (is_whole) length = std::ceil(length);
  };
  part(drawn.pixels.size.width, drawn.view.left, drawn.view.width);
  part(drawn.pixels.size.height, drawn.view.top, drawn.view.height);
  drawn.view.out_width = up_to(90);
  drawn.view.out_height = up_to(90);
  drawn.view.mirror = random.below(2) == 1;
  return drawn;
}

// Every test leaves the choice as it found it.
class ResizeOnEveryMachine : public testing::Test {
 protected:
  ~ResizeOnEveryMachine() override { choose(0); }

  // One kind of instructions only; 0: the best.
  static void choose(int64_t target) {
    chosen_target().Update(target == 0 ? supported_targets() : target);
  }

  static std::vector<int64_t> machines() {
    std::vector<int64_t> found;
    for (int64_t rest = supported_targets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
      found.push_back(rest & -rest);
    }
    return found;
  }
};

TEST(Resize, HalvesByTheDefinition) {
  // Four pixels to two: support 2, so the weights of the first are 3/4, 3/4, 1/4 of the pixels 0,
  // 1, 2 (the fourth is 1.5 away: 1/4 of nothing beyond the image), normalised.
  const Pixels pixels{.size = {4, 1}, .rgb = {0, 7, 0, 100, 7, 0, 200, 7, 0, 40, 7, 255}};
  const View view{.width = 4, .height = 1, .out_width = 2, .out_height = 1};
  // (0.75*0 + 0.75*100 + 0.25*200) / 1.75 = 71.43; (0.25*100 + 0.75*200 + 0.75*40) / 1.75 = 117.14.
  EXPECT_THAT(resized(pixels, view), ElementsAre(71, 117, 7, 7, 0, 109));
}

TEST(Resize, DoublesByTheDefinition) {
  const Pixels pixels{.size = {2, 1}, .rgb = {0, 0, 0, 100, 100, 100}};
  const View view{.width = 2, .height = 1, .out_width = 4, .out_height = 1};
  EXPECT_THAT(resized(pixels, view), ElementsAre(0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100));
}

TEST(Resize, SeesNothingBeyondThePart) {
  Pixels pixels = noise(40, 30, 1);
  const View view{
      .left = 10.5, .top = 6, .width = 12.25, .height = 9, .out_width = 7, .out_height = 5};
  const std::vector<uint8_t> before = resized(pixels, view);
  for (int32_t y = 0; y < 30; ++y) {
    for (int32_t x = 0; x < 40; ++x) {
      if (x >= 10 && x < 23 && y >= 6 && y < 15) continue;
      for (int32_t c = 0; c < 3; ++c) pixels.rgb[static_cast<size_t>((y * 40 + x) * 3 + c)] = 255;
    }
  }
  EXPECT_EQ(resized(pixels, view), before);
}

TEST(Resize, IsWithinOneLevelOfTheDefinitionForAnyPart) {
  double mean = 0;
  constexpr uint64_t kCases = 120;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Drawn drawn = draw(seed);
    const Difference found =
        difference(resized(drawn.pixels, drawn.view), defined(drawn.pixels, drawn.view));
    ASSERT_LE(found.most, 1) << "seed " << seed;
    mean += found.mean / kCases;
  }
  EXPECT_LT(mean, 0.02);
}

TEST(Resize, IsWithinOneLevelWhereItShrinksMuch) {
  // 300 to 3: 200 taps, summed in 32 bits; 300 to 20: too far apart for the shuffles.
  for (const int32_t out : {1, 3, 20, 70}) {
    const Pixels pixels = noise(300, 290, 2);
    const View view{.width = 300, .height = 290, .out_width = out, .out_height = out};
    const Difference found = difference(resized(pixels, view), defined(pixels, view));
    EXPECT_LE(found.most, 1) << out;
    EXPECT_LT(found.mean, 0.1) << out;
  }
}

TEST(Resize, AConstantImageStaysConstant) {
  for (const int32_t out : {1, 2, 7, 33, 50, 224}) {
    for (const int32_t size : {1, 2, 37, 300}) {
      for (const int level : {0, 1, 128, 254, 255}) {
        const Pixels pixels{.size = {size, size},
                            .rgb = std::vector<uint8_t>(static_cast<size_t>(3 * size * size),
                                                        static_cast<uint8_t>(level))};
        const View view{.left = 0.3,
                        .width = size - 0.3,
                        .height = size * 1.0,
                        .out_width = out,
                        .out_height = 3};
        ASSERT_THAT(resized(pixels, view), Each(level)) << size << " to " << out;
      }
    }
  }
}

TEST(Resize, MirroredIsTheMirrorOfTheResult) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Drawn drawn = draw(seed);
    if (seed % 3 == 0) {  // the copy
      drawn.view = {.width = 1.0 * drawn.pixels.size.width,
                    .height = 1,
                    .out_width = drawn.pixels.size.width,
                    .out_height = 1};
    }
    drawn.view.mirror = false;
    std::vector<uint8_t> plain = resized(drawn.pixels, drawn.view);
    drawn.view.mirror = true;
    for (auto row = plain.begin(); row != plain.end(); row += drawn.view.out_width) {
      std::reverse(row, row + drawn.view.out_width);
    }
    ASSERT_EQ(resized(drawn.pixels, drawn.view), plain) << "seed " << seed;
  }
}

TEST(Resize, WholePixelsOfTheSameSizeAreCopied) {
  const Pixels pixels = noise(50, 20, 3);
  const View view{
      .left = 3, .top = 2, .width = 41, .height = 17, .out_width = 41, .out_height = 17};
  const std::vector<uint8_t> out = resized(pixels, view);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < 17; ++y) {
      for (size_t x = 0; x < 41; ++x) {
        ASSERT_EQ(out[(c * 17 + y) * 41 + x], pixels.rgb[((y + 2) * 50 + x + 3) * 3 + c]);
      }
    }
  }
}

TEST(Resize, AResizerForgetsTheImageBefore) {
  Resizer resizer;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Drawn drawn = draw(seed);
    std::vector<uint8_t> out(static_cast<size_t>(3 * drawn.view.out_width * drawn.view.out_height));
    resizer.resize(drawn.pixels, drawn.view, out);
    ASSERT_EQ(out, resized(drawn.pixels, drawn.view)) << "seed " << seed;
  }
}

TEST_F(ResizeOnEveryMachine, GivesTheSameBits) {
  const std::vector<int64_t> all = machines();
  ASSERT_GE(all.size(), 2U) << "nothing to compare";
  for (const int64_t machine : all) {
    choose(machine);
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const Drawn drawn = draw(seed);
      ASSERT_EQ(resized(drawn.pixels, drawn.view), one_by_one(drawn.pixels, drawn.view))
          << std::hex << machine << ", seed " << seed;
    }
    const Pixels large = noise(300, 270, 4);
    for (const int32_t out : {1, 3, 20, 70, 110, 160, 224, 400}) {
      const View view{
          .left = 1.5, .width = 298, .height = 270, .out_width = out, .out_height = out};
      ASSERT_EQ(resized(large, view), one_by_one(large, view))
          << std::hex << machine << ", " << out;
    }
  }
}

TEST_F(ResizeOnEveryMachine, PlanesGoBothWays) {
  for (const int64_t machine : machines()) {
    choose(machine);
    for (int32_t count = 1; count < 150; ++count) {
      const Pixels pixels = noise(count, 1, 5);
      const auto stride = static_cast<size_t>(count) + 3;
      std::vector<uint8_t> planes(3 * stride, 9);
      split_rgb(pixels.rgb.data(), static_cast<size_t>(count), planes.data(), stride);
      for (size_t i = 0; i < pixels.rgb.size(); ++i) {
        ASSERT_EQ(planes[i % 3 * stride + i / 3], pixels.rgb[i]) << std::hex << machine;
      }
      EXPECT_EQ(planes.back(), 9);
      std::vector<uint8_t> joined(pixels.rgb.size());
      join_rgb(planes.data(), stride, static_cast<size_t>(count), joined.data());
      ASSERT_EQ(joined, pixels.rgb) << std::hex << machine;
      std::vector<uint8_t> reversed(joined.size());
      reverse_bytes(joined.data(), joined.size(), reversed.data());
      std::reverse(joined.begin(), joined.end());
      ASSERT_EQ(reversed, joined) << std::hex << machine;
    }
  }
}

TEST(ResizeWeights, SumToOne) {
  FilterAxis axis;
  for (const double length : {0.5, 1.0, 7.3, 224.0, 3000.0}) {
    for (const int32_t results : {1, 7, 224}) {
      fill_axis(touched_pixels(5.25, length, 4000), results, Mirror::no, axis);
      for (int32_t i = 0; i < results; ++i) {
        const int32_t count = axis.count[static_cast<size_t>(i)];
        int64_t sum = 0;
        for (int32_t k = 0; k < axis.stride; ++k) sum += axis.of(i)[k];
        EXPECT_EQ(sum, count == 1 ? kWeightOne - 1 : kWeightOne) << length << " to " << results;
        EXPECT_GE(axis.first[static_cast<size_t>(i)], 0);
      }
    }
  }
}

}  // namespace
}  // namespace tern
