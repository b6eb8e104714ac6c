#include "loader/colour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace tern {
namespace {

using Change = ColourDraw::Change;
using Image = std::vector<uint8_t>;

constexpr ImageShape kShape{3, 13, 17};

Image varied_image(ImageShape shape, uint64_t seed = 1) {
  Random random(seed, Stream::colour, 7);
  Image image(static_cast<size_t>(shape.bytes()));
  for (uint8_t& value : image) value = static_cast<uint8_t>(random.next() >> 24);
  return image;
}

ColourDraw only(Change change, float factor) {
  ColourDraw draw;
  draw.factor[static_cast<size_t>(change)] = factor;
  return draw;
}

Image changed(Image image, ImageShape shape, const ColourDraw& draw) {
  change_colour(image, shape, draw);
  return image;
}

uint8_t to_byte(double value) {
  return static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L));
}

// The definition of one change, in double.
Image defined(const Image& in, ImageShape shape, Change change, double factor) {
  const auto pixels = static_cast<size_t>(shape.height * shape.width);
  std::vector<double> grey(pixels);
  double mean = 0;
  for (size_t i = 0; i < pixels; ++i) {
    grey[i] = shape.channels == 3
                  ? 0.299 * in[i] + 0.587 * in[pixels + i] + 0.114 * in[2 * pixels + i]
                  : in[i];
    mean += grey[i] / static_cast<double>(pixels);
  }
  Image out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const double base = change == Change::brightness ? 0
                        : change == Change::contrast ? mean
                                                     : grey[i % pixels];
    const bool has_colour = shape.channels == 3 || change != Change::saturation;
    out[i] = has_colour ? to_byte(factor * in[i] + (1 - factor) * base) : in[i];
  }
  return out;
}

int worst_difference(const Image& a, const Image& b) {
  int worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(Colour, FactorOneChangesNothing) {
  const Image image = varied_image(kShape);
  EXPECT_EQ(changed(image, kShape, {}), image);
}

TEST(Colour, EveryChangeIsItsDefinitionWithinOneLevel) {
  for (const ImageShape shape : {kShape, ImageShape{1, 8, 9}, ImageShape{3, 1, 1}}) {
    const Image image = varied_image(shape);
    for (const Change change : {Change::brightness, Change::contrast, Change::saturation}) {
      for (const float factor : {0.F, 0.1F, 0.6F, 0.97F, 1.F, 1.4F, 1.99F, 2.F}) {
        const Image ours = changed(image, shape, only(change, factor));
        EXPECT_LE(worst_difference(ours, defined(image, shape, change, factor)), 1)
            << static_cast<int>(change) << " by " << factor;
      }
    }
  }
}

TEST(Colour, SeveralChangesAreMadeInTheDrawnOrder) {
  const Image image = varied_image(kShape);
  std::set<Image> results;
  for (uint64_t position = 0; position < 60; ++position) {
    Random random(1, Stream::colour, 0, position);
    ColourDraw draw = draw_colour({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}, random);
    Image expected = image;
    for (const Change change : draw.order) {
      expected = defined(expected, kShape, change,
                         static_cast<double>(draw.factor[static_cast<size_t>(change)]));
    }
    // A level of difference can be stretched by the changes that follow.
    EXPECT_LE(worst_difference(changed(image, kShape, draw), expected), 3);
    draw.factor = {1.4F, 0.6F, 1.3F};
    results.insert(changed(image, kShape, draw));
  }
  EXPECT_EQ(results.size(), 6u);
}

TEST(Colour, ExtremesAreBlackGreyAndColourless) {
  const Image image = varied_image(kShape);
  EXPECT_EQ(changed(image, kShape, only(Change::brightness, 0)), Image(image.size(), 0));
  const Image flat = changed(image, kShape, only(Change::contrast, 0));
  EXPECT_EQ(std::set<uint8_t>(flat.begin(), flat.end()).size(), 1u);
  const Image faded = changed(image, kShape, only(Change::saturation, 0));
  const auto pixels = static_cast<size_t>(kShape.height * kShape.width);
  for (size_t i = 0; i < pixels; ++i) {
    ASSERT_EQ(faded[i], faded[pixels + i]);
    ASSERT_EQ(faded[i], faded[2 * pixels + i]);
  }
  EXPECT_EQ(changed(Image(12, 255), {3, 2, 2}, only(Change::brightness, 2)), Image(12, 255));
}

TEST(Colour, GreyImagesHaveNoSaturation) {
  Image grey(3 * 256);
  for (size_t i = 0; i < grey.size(); ++i) grey[i] = static_cast<uint8_t>(i % 256);
  for (const float factor : {0.F, 0.5F, 2.F}) {
    EXPECT_EQ(changed(grey, {3, 16, 16}, only(Change::saturation, factor)), grey);
    const Image one(grey.begin(), grey.begin() + 256);
    EXPECT_EQ(changed(one, {1, 16, 16}, only(Change::saturation, factor)), one);
  }
}

TEST(Colour, FactorsFillTheirRangeAndOrdersAreEquallyLikely) {
  std::map<std::array<Change, 3>, int> orders;
  float least = 9;
  float most = 0;
  for (uint64_t position = 0; position < 6000; ++position) {
    Random random(1, Stream::colour, 0, position);
    Random four(1, Stream::colour, 0, position);
    const ColourDraw draw = draw_colour({.brightness = 0.4, .contrast = 1}, random);
    ++orders[draw.order];
    least = std::min(least, draw.factor[0]);
    most = std::max(most, draw.factor[0]);
    EXPECT_GE(draw.factor[1], 0);
    EXPECT_LE(draw.factor[1], 2);
    EXPECT_EQ(draw.factor[2], 1);
    // Whatever is drawn, it takes four numbers.
    for (int i = 0; i < 4; ++i) four.next();
    ASSERT_EQ(random.next(), four.next());
  }
  EXPECT_NEAR(least, 0.6F, 0.002F);
  EXPECT_NEAR(most, 1.4F, 0.002F);
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 150);
}

TEST(Colour, OnlyOptionsAboveZeroJitter) {
  EXPECT_FALSE(jitters({.pad_crop = 4, .flip = true}));
  EXPECT_TRUE(jitters({.brightness = 0.1}));
  EXPECT_TRUE(jitters({.contrast = 0.1}));
  EXPECT_TRUE(jitters({.saturation = 0.1}));
}

// A resumed run on another machine must see the same pixels: these values may never change.
TEST(Colour, BitsArePinned) {
  const ImageShape shape{3, 1, 3};
  Random random(1, Stream::colour, 2, 3);
  const ColourDraw draw =
      draw_colour({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}, random);
  EXPECT_EQ(changed({0, 50, 255, 10, 128, 200, 99, 77, 3}, shape, draw),
            (Image{0, 68, 255, 11, 170, 255, 128, 104, 13}));
}

}  // namespace
}  // namespace tern
