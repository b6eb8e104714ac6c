// Which views the loader asks for, and what it does to the pixels then.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/random.h"
#include "loader/augment.h"
#include "loader/colour.h"
#include "loader/test_loader.h"
#include "loader/view.h"

namespace tern {
namespace {

constexpr int64_t kSide = 8;
constexpr size_t kBytes = 2 * kSide * kSide;

// Images of many sizes.
struct Photos : Given {
  Photos() : Given(120, 50) {
    dataset.sizes([](int64_t sample) {
      return ImageSize{static_cast<int32_t>(100 + sample * 37 % 300),
                       static_cast<int32_t>(120 + sample * 53 % 200)};
    });
  }

  Loader::Setup setup(int64_t threads) const {
    Loader::Setup setup = Given::setup(threads, /*epochs=*/2);
    setup.augment = {.flip = true};
    setup.image.size = kSide;
    return setup;
  }
};

Random random_of(const Batch& batch, int64_t position, Stream stream) {
  return Random(11, stream, static_cast<uint64_t>(batch.epoch), static_cast<uint64_t>(position));
}

// What each position of all batches shows: its only pixel value, checked to be the only one.
template <typename Expected>
void expect_pixels(const std::vector<Batch>& batches, const Given& given,
                   const Expected& expected) {
  ASSERT_FALSE(batches.empty());
  for (const Batch& batch : batches) {
    ASSERT_EQ(batch.shape, (ImageShape{2, kSide, kSide}));
    for (int64_t position = batch.positions.begin; position < batch.positions.end; ++position) {
      const auto begin = batch.images.begin() + (position - batch.positions.begin) * kBytes;
      const int64_t sample = given.plan.sample_at(batch.epoch, position);
      ASSERT_EQ(std::vector<uint8_t>(begin, begin + kBytes),
                std::vector<uint8_t>(kBytes, expected(batch, position, sample)));
    }
  }
}

TEST(LoaderView, RandomPartsAreKeyedByPositionAndMirroredWhileResized) {
  const Photos given;
  for (const int64_t threads : {0, 3}) {
    const Loader::Setup setup = given.setup(threads);
    const auto expected = [&](const Batch& batch, int64_t position, int64_t sample) {
      Random random = random_of(batch, position, Stream::view);
      View view = draw_resized_crop(setup.image, given.dataset.info(sample).size, random);
      Random flips = random_of(batch, position, Stream::augment);
      view.mirror = draw_augment(setup.augment, flips).mirror;
      return ScriptedDataset::pixel_of(sample, view);
    };
    expect_pixels(load_all(setup), given, expected);
  }
}

TEST(LoaderView, FlipLeftToTheDeviceIsDrawnAndNotInTheView) {
  const Photos given;
  Loader::Setup setup = given.setup(2);
  setup.leave_augmentation = true;
  const std::vector<Batch> batches = load_all(setup);
  int mirrored = 0;
  expect_pixels(batches, given, [&](const Batch& batch, int64_t position, int64_t sample) {
    Random flips = random_of(batch, position, Stream::augment);
    const AugmentDraw draw = draw_augment(setup.augment, flips);
    EXPECT_EQ(batch.draws[static_cast<size_t>(position - batch.positions.begin)], draw);
    mirrored += draw.mirror ? 1 : 0;
    Random random = random_of(batch, position, Stream::view);
    return ScriptedDataset::pixel_of(
        sample, draw_resized_crop(setup.image, given.dataset.info(sample).size, random));
  });
  EXPECT_GT(mirrored, 80);
}

TEST(LoaderView, EvaluationAndCropCentreSeeTheCentreAndDrawNothing) {
  const Photos given;
  Loader::Setup evaluation = given.setup(2);
  evaluation.is_evaluation = true;
  evaluation.leave_augmentation = true;
  evaluation.augment = {.pad_crop = 2, .flip = true, .brightness = 0.4};
  Loader::Setup centre = given.setup(2);
  centre.image.crop = "centre";
  centre.augment = {};
  for (const Loader::Setup& setup : {evaluation, centre}) {
    const std::vector<Batch> batches = load_all(setup);
    for (const Batch& batch : batches) EXPECT_TRUE(batch.draws.empty());
    expect_pixels(batches, given, [&](const Batch&, int64_t, int64_t sample) {
      return ScriptedDataset::pixel_of(sample,
                                       centre_view(setup.image, given.dataset.info(sample).size));
    });
  }
}

TEST(LoaderView, PadCropWithAViewMovesTheResizedImage) {
  const Photos given;
  Loader::Setup setup = given.setup(2);
  setup.augment.pad_crop = 2;
  const std::vector<Batch> moved = load_all(setup);
  setup.leave_augmentation = true;
  const std::vector<Batch> left = load_all(setup);
  std::vector<uint8_t> expected(kBytes);
  for (size_t b = 0; b < moved.size(); ++b) {
    for (size_t i = 0; i < moved[b].labels.size(); ++i) {
      augment_image(std::span(left[b].images).subspan(i * kBytes, kBytes), expected, left[b].shape,
                    left[b].draws[i]);
      ASSERT_TRUE(
          std::ranges::equal(expected, std::span(moved[b].images).subspan(i * kBytes, kBytes)));
    }
  }
}

// Colours change before the black border comes in, whoever adds it.
TEST(LoaderView, ColourJitterComesBeforeCropAndFlip) {
  const Given given(120, 50);
  Loader::Setup setup = given.setup(2);
  setup.augment.brightness = 0.4;
  setup.augment.contrast = 0.4;
  const std::vector<Batch> done = load_all(setup);
  setup.leave_augmentation = true;
  const std::vector<Batch> left = load_all(setup);
  std::vector<uint8_t> expected(40);
  for (size_t b = 0; b < done.size(); ++b) {
    const Batch& batch = left[b];
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const int64_t position = batch.positions.begin + static_cast<int64_t>(i);
      std::vector<uint8_t> image =
          given.dataset.pixels(given.plan.sample_at(batch.epoch, position));
      Random random = random_of(batch, position, Stream::colour);
      change_colour(image, batch.shape, draw_colour(setup.augment, random));
      ASSERT_TRUE(std::ranges::equal(image, std::span(batch.images).subspan(i * 40, 40)));
      augment_image(image, expected, batch.shape, batch.draws[i]);
      ASSERT_TRUE(std::ranges::equal(expected, std::span(done[b].images).subspan(i * 40, 40)));
    }
  }
}

TEST(LoaderView, RectangularBatchesHaveTheShapeOfTheirMeanRatio) {
  const Photos given;
  const auto order =
      std::make_shared<const std::vector<int64_t>>(order_by_aspect_ratio(given.dataset));
  const Plan plan = Plan("x", 120, 0, 50, Order::sequential).with_order(order);
  Loader::Setup setup = given.setup(2);
  setup.plan = &plan;
  setup.epochs = 1;
  setup.is_evaluation = true;
  setup.image = {.size = 64, .rectangular = true};
  const std::vector<Batch> batches = load_all(setup);
  ASSERT_EQ(batches.size(), 3u);
  // Mean ratios of 0.73, 1.35 and 2.13.
  EXPECT_EQ(batches[0].shape, (ImageShape{2, 96, 64}));
  EXPECT_EQ(batches[1].shape, (ImageShape{2, 64, 96}));
  EXPECT_EQ(batches[2].shape, (ImageShape{2, 64, 128}));
  for (const Batch& batch : batches) {
    ASSERT_EQ(batch.images.size(), batch.labels.size() * static_cast<size_t>(batch.shape.bytes()));
    // Every rank sees the shape of the whole batch.
    for (int64_t rank = 0; rank < 7; ++rank) {
      Loader::Setup share = setup;
      share.rank = rank;
      share.world = 7;
      const Batch part = load_batch(share, {0, batch.index}).value();
      EXPECT_EQ(part.shape, batch.shape);
      EXPECT_TRUE(std::ranges::equal(
          part.images,
          std::span(batch.images)
              .subspan(static_cast<size_t>((part.positions.begin - batch.positions.begin) *
                                           batch.shape.bytes()),
                       part.images.size())));
    }
  }
}

}  // namespace
}  // namespace tern
