#include "loader/augment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace tern {
namespace {

using Image = std::vector<uint8_t>;

Image numbered_image(ImageShape shape) {
  Image image(static_cast<size_t>(shape.bytes()));
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(1 + i % 255);
  return image;
}

Image augmented(const Image& in, ImageShape shape, const AugmentOptions& options, Random& random) {
  Image out(in.size(), 77);
  augment_image(in, out, shape, draw_augment(options, random));
  return out;
}

// The definition, pixel by pixel: draw the row, the column, the mirror; look up in the padded
// image.
Image naive(const Image& in, ImageShape shape, const AugmentOptions& options, Random& random) {
  const int64_t pad = options.pad_crop;
  const auto draw = [&](int64_t bound) {
    return static_cast<int64_t>((uint64_t{random.next()} * static_cast<uint64_t>(bound)) >> 32);
  };
  const int64_t top = pad > 0 ? draw(2 * pad + 1) : 0;
  const int64_t left = pad > 0 ? draw(2 * pad + 1) : 0;
  const bool mirror = options.flip && draw(2) == 1;
  Image out;
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = 0; y < shape.height; ++y) {
      for (int64_t x = 0; x < shape.width; ++x) {
        const int64_t in_y = y + top - pad;
        const int64_t in_x = (mirror ? shape.width - 1 - x : x) + left - pad;
        const bool inside = in_y >= 0 && in_y < shape.height && in_x >= 0 && in_x < shape.width;
        const int64_t at = (c * shape.height + in_y) * shape.width + in_x;
        out.push_back(inside ? in[static_cast<size_t>(at)] : uint8_t{0});
      }
    }
  }
  return out;
}

TEST(Augment, EqualsTheNaiveDefinition) {
  for (const ImageShape shape : {ImageShape{1, 28, 28}, ImageShape{3, 32, 32}, ImageShape{2, 3, 5},
                                 ImageShape{1, 1, 1}, ImageShape{1, 1, 7}, ImageShape{1, 7, 1}}) {
    const Image in = numbered_image(shape);
    for (const int64_t pad : {0, 1, 4, 64}) {
      for (const bool flip : {false, true}) {
        const AugmentOptions options{.pad_crop = pad, .flip = flip};
        for (uint64_t position = 0; position < 50; ++position) {
          Random ours(1, Stream::augment, 0, position);
          Random reference(1, Stream::augment, 0, position);
          ASSERT_EQ(augmented(in, shape, options, ours), naive(in, shape, options, reference));
          // Both have drawn as many numbers: the next one is the same.
          ASSERT_EQ(ours.next(), reference.next());
        }
      }
    }
  }
}

TEST(Augment, OffIsACopyThatDrawsNothing) {
  const ImageShape shape{3, 4, 5};
  const Image in = numbered_image(shape);
  Random random(1, Stream::augment, 2, 3);
  Random untouched(1, Stream::augment, 2, 3);
  EXPECT_EQ(augmented(in, shape, {}, random), in);
  EXPECT_EQ(random.next(), untouched.next());
  EXPECT_FALSE(augments({}));
  EXPECT_TRUE(augments({.pad_crop = 1}));
  EXPECT_TRUE(augments({.flip = true}));
}

TEST(Augment, WidestCropIsDrawnFromEdgeToEdge) {
  std::set<int> down;
  std::set<int> right;
  for (uint64_t position = 0; position < 3000; ++position) {
    Random random(1, Stream::augment, 0, position);
    const AugmentDraw draw = draw_augment({.pad_crop = 64}, random);
    down.insert(draw.down);
    right.insert(draw.right);
    EXPECT_FALSE(draw.mirror);
  }
  for (const std::set<int>& seen : {down, right}) {
    EXPECT_EQ(seen.size(), 129u);
    EXPECT_EQ(*seen.begin(), -64);
    EXPECT_EQ(*seen.rbegin(), 64);
  }
}

TEST(Augment, EveryCropAndMirrorHappensAboutEquallyOften) {
  const ImageShape shape{1, 4, 4};
  const Image in = numbered_image(shape);
  std::map<Image, int> seen;
  constexpr int kDraws = 18 * 200;
  for (uint64_t position = 0; position < kDraws; ++position) {
    Random random(1, Stream::augment, 0, position);
    ++seen[augmented(in, shape, {.pad_crop = 1, .flip = true}, random)];
  }
  EXPECT_EQ(seen.size(), 3u * 3u * 2u);
  for (const auto& [image, count] : seen) EXPECT_NEAR(count, 200, 70);  // five deviations
}

}  // namespace
}  // namespace tern
