#include "loader/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "loader/test_loader.h"

namespace tern {
namespace {

const ImageOptions k224{.size = 224};

Random random_at(uint64_t position) { return Random(1, Stream::view, 0, position); }

void expect_inside(const View& view, ImageSize image) {
  EXPECT_GE(view.left, 0);
  EXPECT_GE(view.top, 0);
  EXPECT_GT(view.width, 0);
  EXPECT_GT(view.height, 0);
  EXPECT_LE(view.left + view.width, image.width);
  EXPECT_LE(view.top + view.height, image.height);
}

View whole_box(double left, double top, double width, double height) {
  return {.left = left,
          .top = top,
          .width = width,
          .height = height,
          .out_width = 224,
          .out_height = 224,
          .may_reduce = true};
}

const std::vector<ImageSize> kSizes = {
    {1, 1},      {1, 9},     {9, 1},     {2, 3},       {500, 375},  {375, 500}, {224, 224},
    {65'535, 1}, {33, 4096}, {640, 427}, {1999, 1999}, {1, 65'535}, {257, 256}, {4096, 4095}};

TEST(View, PartsAlwaysLieInsideTheImage) {
  for (const ImageSize size : kSizes) {
    for (const double min_scale : {0.001, 0.08, 1.0}) {
      for (const double min_ratio : {0.1, 0.75, 1.0}) {
        const ImageOptions options{.size = 32, .min_scale = min_scale, .min_ratio = min_ratio};
        for (uint64_t position = 0; position < 200; ++position) {
          Random random = random_at(position);
          const View view = draw_resized_crop(options, size, random);
          expect_inside(view, size);
          // Whole pixels: what the decoder cuts out is what is resized.
          EXPECT_EQ(view.left, std::floor(view.left));
          EXPECT_EQ(view.width, std::floor(view.width));
          EXPECT_EQ(view.out_width, 32);
          EXPECT_EQ(view.out_height, 32);
          EXPECT_FALSE(view.mirror);
        }
      }
    }
    for (const int64_t resize : {0, 1, 32, 36, 8192}) {
      const ImageOptions options{.size = 32, .evaluate_resize = resize};
      expect_inside(centre_view(options, size), size);
      for (const double ratio : {0.01, 0.5, 0.7, 1.0, 1.4, 2.0, 90.0}) {
        expect_inside(rectangular_view(options, size, ratio), size);
      }
    }
  }
}

// Against torchvision's algorithm in Python, 300,000 draws: the mean share of the area was 0.4329
// (its deviation over the draws 0.2166), the mean width / height 1.0451; two took the centre.
TEST(View, RandomPartsAreDistributedAsTorchvisionsAre) {
  constexpr int kDraws = 20'000;
  double area = 0;
  double area_squared = 0;
  double ratio = 0;
  double left = 0;
  double narrowest = 9;
  double widest = 0;
  for (uint64_t position = 0; position < kDraws; ++position) {
    Random random = random_at(position);
    const View view = draw_resized_crop(k224, {500, 375}, random);
    const double share = view.width * view.height / (500.0 * 375.0);
    area += share / kDraws;
    area_squared += share * share / kDraws;
    ratio += view.width / view.height / kDraws;
    narrowest = std::min(narrowest, view.width / view.height);
    widest = std::max(widest, view.width / view.height);
    left += (view.left + view.width / 2) / 500 / kDraws;
  }
  EXPECT_NEAR(area, 0.4329, 0.007);  // four deviations of the mean
  EXPECT_NEAR(std::sqrt(area_squared - area * area), 0.2166, 0.01);
  EXPECT_NEAR(ratio, 1.0451, 0.005);
  EXPECT_NEAR(left, 0.5, 0.005);
  EXPECT_NEAR(narrowest, 0.75, 0.02);
  EXPECT_NEAR(widest, 4.0 / 3, 0.02);
}

TEST(View, WhereNoPartFitsTheCentreIsTakenInAnAllowedRatio) {
  Random random = random_at(0);
  // Ten tries of at least a quarter of the area cannot fit into so narrow an image.
  const ImageOptions options{.size = 224, .min_scale = 0.25};
  EXPECT_EQ(draw_resized_crop(options, {3000, 30}, random), whole_box(1480, 0, 40, 30));
  EXPECT_EQ(draw_resized_crop(options, {30, 3000}, random), whole_box(0, 1480, 30, 40));
  // A ratio that is allowed and no smaller part: all of it.
  const ImageOptions all{.size = 224, .min_scale = 1, .min_ratio = 0.5};
  for (uint64_t position = 0; position < 50; ++position) {
    Random another = random_at(position);
    const View view = draw_resized_crop(all, {300, 200}, another);
    EXPECT_NEAR(view.width * view.height, 300 * 200, 1000);
  }
}

TEST(View, DrawsArePinned) {
  std::vector<View> drawn;
  for (uint64_t position = 0; position < 4; ++position) {
    Random random = random_at(position);
    drawn.push_back(draw_resized_crop(k224, {500, 375}, random));
  }
  const std::vector<View> expected = {whole_box(92, 3, 230, 292), whole_box(159, 60, 255, 203),
                                      whole_box(149, 33, 300, 340), whole_box(171, 62, 187, 244)};
  EXPECT_EQ(drawn, expected);
}

TEST(View, CentreIsThatOfResizeAndCentreCrop) {
  // Resize(256) makes 341 x 256 of 500 x 375; CenterCrop(224) begins at 58 (58.5, halves to even)
  // and 16.
  const View view = centre_view(k224, {500, 375});
  EXPECT_DOUBLE_EQ(view.left, 58 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(view.top, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(view.width, 224 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(view.height, 224 * 375.0 / 256);
  EXPECT_TRUE(view.may_reduce);
  EXPECT_EQ(centre_view({.size = 224, .evaluate_resize = 224, .reduce = false}, {224, 224}),
            (View{.width = 224, .height = 224, .out_width = 224, .out_height = 224}));
}

TEST(View, SizeLargerThanTheResizeEnlargesRatherThanPads) {
  const View view = centre_view({.size = 256, .evaluate_resize = 100}, {200, 100});
  EXPECT_DOUBLE_EQ(view.left, 50);
  EXPECT_DOUBLE_EQ(view.width, 100);
  EXPECT_DOUBLE_EQ(view.height, 100);
}

TEST(View, RectanglesHaveAShortSideOfSizeAndALongOneOfWholeThirtyTwos) {
  const auto shape = [](double ratio) { return rectangular_shape(k224, ratio); };
  EXPECT_EQ(shape(1), (ImageShape{0, 224, 224}));
  EXPECT_EQ(shape(1.34), (ImageShape{0, 224, 288}));  // 300.2
  EXPECT_EQ(shape(0.75), (ImageShape{0, 288, 224}));
  EXPECT_EQ(shape(2), (ImageShape{0, 224, 448}));
  EXPECT_EQ(shape(7), (ImageShape{0, 224, 448}));
  EXPECT_EQ(shape(0.01), (ImageShape{0, 448, 224}));
  EXPECT_EQ(rectangular_shape({.size = 104}, 2), (ImageShape{0, 104, 208}));  // not 224
  EXPECT_EQ(rectangular_shape({.size = 40}, 1), (ImageShape{0, 40, 40}));     // not 32
}

TEST(View, ShapeOfARectanglesOwnRatioIsTheSame) {
  for (int64_t size = 1; size < 300; ++size) {
    for (double ratio = 0.4; ratio < 2.5; ratio += 0.013) {
      const ImageShape shape = rectangular_shape({.size = size}, ratio);
      const double own = static_cast<double>(shape.width) / static_cast<double>(shape.height);
      ASSERT_EQ(rectangular_shape({.size = size}, own), shape) << size << " " << ratio;
    }
  }
}

TEST(View, RectangleCutsNothingOffTheSidesOfItsOwnRatio) {
  const ImageOptions options{.size = 224, .evaluate_resize = 224};
  const View view = rectangular_view(options, {640, 320}, 2);
  EXPECT_EQ(
      view,
      (View{.width = 640, .height = 320, .out_width = 448, .out_height = 224, .may_reduce = true}));
  // A narrower neighbour in the batch loses height instead.
  const View narrower = rectangular_view(options, {320, 320}, 2);
  EXPECT_DOUBLE_EQ(narrower.left, 0);
  EXPECT_DOUBLE_EQ(narrower.width, 320);
  EXPECT_DOUBLE_EQ(narrower.top, 80);
  EXPECT_DOUBLE_EQ(narrower.height, 160);
}

TEST(View, SamplesAreSortedByAspectRatioThenNumber) {
  ScriptedDataset dataset(6);
  const std::vector<ImageSize> sizes = {{200, 100}, {50, 100}, {300, 300},
                                        {400, 200}, {7, 7},    {99, 100}};
  dataset.sizes([&](int64_t sample) { return sizes[static_cast<size_t>(sample)]; });
  EXPECT_EQ(order_by_aspect_ratio(dataset), (std::vector<int64_t>{1, 5, 2, 4, 0, 3}));
}

}  // namespace
}  // namespace tern
