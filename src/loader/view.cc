#include "loader/view.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tern {
namespace {

constexpr int kTries = 10;
constexpr double kRatioMax = 2;        // rectangular: the longest side, in short ones
constexpr int64_t kLongMultiple = 32;  // most networks halve their input five times

View view_of(const ImageOptions& options, Box part) {
  return {.left = static_cast<double>(part.left),
          .top = static_cast<double>(part.top),
          .width = static_cast<double>(part.width),
          .height = static_cast<double>(part.height),
          .out_width = static_cast<int32_t>(options.size),
          .out_height = static_cast<int32_t>(options.size),
          .may_reduce = options.reduce};
}

double between(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

// The largest part with an allowed aspect ratio, in the middle.
Box largest_allowed(const ImageOptions& options, ImageSize image) {
  const double ratio = static_cast<double>(image.width) / image.height;
  Box part{.width = image.width, .height = image.height};
  if (ratio < options.min_ratio) {
    part.height = static_cast<int32_t>(std::lrint(part.width / options.min_ratio));
  } else if (ratio > 1 / options.min_ratio) {
    part.width = static_cast<int32_t>(std::lrint(part.height / options.min_ratio));
  }
  part.width = std::clamp(part.width, 1, image.width);
  part.height = std::clamp(part.height, 1, image.height);
  part.left = (image.width - part.width) / 2;
  part.top = (image.height - part.height) / 2;
  return part;
}

// Where `cut` pixels of the middle of `resized` ones lie among the image's own.
struct Span {
  double begin = 0;
  double length = 0;
};
Span middle(int64_t own, int64_t resized, int64_t cut) {
  const double scale = static_cast<double>(own) / static_cast<double>(resized);
  // lrint rounds halves to even, as Python's round() does.
  const double begin =
      static_cast<double>(std::lrint(static_cast<double>(resized - cut) / 2)) * scale;
  const double length = static_cast<double>(cut) * scale;
  return {begin, std::min(length, static_cast<double>(own) - begin)};
}

// The centre width x height of the image as if its short side had been resized.
View centre_cut(const ImageOptions& options, ImageSize image, int64_t width, int64_t height) {
  const int64_t wanted =
      options.evaluate_resize > 0 ? options.evaluate_resize : options.size * 256 / 224;
  const int64_t short_side = std::min(image.width, image.height);
  const int64_t resize = std::max(wanted, options.size);
  int64_t resized_width = image.width * resize / short_side;
  int64_t resized_height = image.height * resize / short_side;
  if (resized_width < width || resized_height < height) {
    // Larger, so that the cut is filled: one side just fits then.
    const bool width_fits = width * image.height >= height * image.width;
    resized_width = width_fits ? width : image.width * height / image.height;
    resized_height = width_fits ? image.height * width / image.width : height;
  }
  const Span across = middle(image.width, resized_width, width);
  const Span down = middle(image.height, resized_height, height);
  return {.left = across.begin,
          .top = down.begin,
          .width = across.length,
          .height = down.length,
          .out_width = static_cast<int32_t>(width),
          .out_height = static_cast<int32_t>(height),
          .may_reduce = options.reduce};
}

}  // namespace

// std::exp may differ in its last bit between C libraries. The sides are rounded to whole pixels,
// so that such a difference shows in about one of 10^12 draws, as one pixel.
View draw_resized_crop(const ImageOptions& options, ImageSize image, Random& random) {
  const auto area = static_cast<double>(image.pixels());
  const double log_ratio = -std::log(options.min_ratio);
  for (int i = 0; i < kTries; ++i) {
    const double part_area = area * between(random, options.min_scale, 1);
    const double ratio = std::exp(between(random, -log_ratio, log_ratio));
    const auto width = std::lrint(std::sqrt(part_area * ratio));
    const auto height = std::lrint(std::sqrt(part_area / ratio));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    Box part{.width = static_cast<int32_t>(width), .height = static_cast<int32_t>(height)};
    part.top =
        static_cast<int32_t>(random.below(static_cast<uint32_t>(image.height - part.height + 1)));
    part.left =
        static_cast<int32_t>(random.below(static_cast<uint32_t>(image.width - part.width + 1)));
    return view_of(options, part);
  }
  return view_of(options, largest_allowed(options, image));
}

View centre_view(const ImageOptions& options, ImageSize image) {
  return centre_cut(options, image, options.size, options.size);
}

View rectangular_view(const ImageOptions& options, ImageSize image, double ratio) {
  const ImageShape shape = rectangular_shape(options, ratio);
  return centre_cut(options, image, shape.width, shape.height);
}

ImageShape rectangular_shape(const ImageOptions& options, double ratio) {
  const bool is_wide = ratio >= 1;
  const double times = std::min(is_wide ? ratio : 1 / ratio, kRatioMax);
  const double multiples = static_cast<double>(options.size) * times / kLongMultiple;
  const int64_t long_side =
      std::clamp(std::lround(multiples) * kLongMultiple, options.size, 2 * options.size);
  return {.height = is_wide ? options.size : long_side,
          .width = is_wide ? long_side : options.size};
}

std::vector<int64_t> order_by_aspect_ratio(const Dataset& dataset) {
  std::vector<ImageSize> sizes;
  sizes.reserve(static_cast<size_t>(dataset.size()));
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    sizes.push_back(dataset.info(sample).size);
  }
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t a, int64_t b) {
    const ImageSize& one = sizes[static_cast<size_t>(a)];
    const ImageSize& other = sizes[static_cast<size_t>(b)];
    // By whole numbers: one.width / one.height < other.width / other.height.
    const int64_t left = int64_t{one.width} * other.height;
    const int64_t right = int64_t{other.width} * one.height;
    return left != right ? left < right : a < b;
  });
  return order;
}

}  // namespace tern
