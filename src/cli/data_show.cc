#include "cli/data_show.h"

#include <fmt/format.h>

#include <algorithm>

#include "loader/loader.h"

namespace tern {
namespace {

constexpr int32_t kGap = 4;         // pixels between pictures
constexpr int32_t kMiddleGap = 24;  // between the two sheets
constexpr int64_t kSheetPixelsMax = int64_t{100} << 20;

// Copies one CHW image into the sheet, grey or colour.
void paste(std::span<const uint8_t> image, ImageShape shape, int64_t left, int64_t top,
           Pixels& sheet) {
  const int64_t plane = shape.height * shape.width;
  for (int64_t y = 0; y < shape.height; ++y) {
    for (int64_t x = 0; x < shape.width; ++x) {
      const auto at = static_cast<size_t>(((top + y) * sheet.size.width + left + x) * 3);
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t channel = shape.channels == 1 ? 0 : c;
        sheet.rgb[at + static_cast<size_t>(c)] =
            image[static_cast<size_t>(channel * plane + y * shape.width + x)];
      }
    }
  }
}

void paste_bad(ImageShape shape, int64_t left, int64_t top, Pixels& sheet) {
  std::vector<uint8_t> red(static_cast<size_t>(3 * shape.height * shape.width), 0);
  std::fill_n(red.begin(), shape.height * shape.width, uint8_t{200});
  paste(red, {3, shape.height, shape.width}, left, top, sheet);
}

}  // namespace

Result<Pixels> draw_sample(const Dataset& dataset, int64_t sample) {
  Bytes buffer;
  ImageDecoder decoder;
  Pixels pixels;
  ASSIGN_OR_RETURN(const BytesView stored, dataset.fetch(sample, buffer));
  RETURN_IF_ERROR(decoder.decode_rgb(stored, dataset.info(sample), pixels));
  return pixels;
}

Result<Pixels> draw_grid(const Dataset& dataset, const GridOptions& options,
                         std::vector<std::string>& problems) {
  const int64_t step = options.image.size + kGap;
  const int64_t sheet_width = options.columns * step;
  Pixels sheet;
  sheet.size = {static_cast<int32_t>(2 * sheet_width + kMiddleGap),
                static_cast<int32_t>(options.rows * step)};
  if (sheet.size.pixels() > kSheetPixelsMax) {
    return fail(Code::invalid,
                fmt::format("a sheet of {}x{} pixels is too large to look at; choose fewer or "
                            "smaller pictures",
                            sheet.size.width, sheet.size.height));
  }
  sheet.rgb.assign(static_cast<size_t>(sheet.size.pixels()) * 3, 255);

  // Batches of one, in the order of the samples: the loader itself makes the pictures.
  const Plan plan(dataset.id(), dataset.size(), options.seed, 1, Order::sequential);
  const int64_t end = std::min(dataset.size(), options.first + options.columns * options.rows);
  for (int64_t sample = options.first; sample < end; ++sample) {
    const int64_t cell = sample - options.first;
    const int64_t left = cell % options.columns * step;
    const int64_t top = cell / options.columns * step;
    for (const bool is_evaluation : {true, false}) {
      const Loader::Setup setup{.dataset = &dataset,
                                .plan = &plan,
                                .seed = options.seed,
                                .augment = is_evaluation ? AugmentOptions{} : options.augment,
                                .image = options.image,
                                .is_evaluation = is_evaluation};
      const Result<Batch> batch = load_batch(setup, {0, sample});
      const int64_t x = left + (is_evaluation ? 0 : sheet_width + kMiddleGap);
      if (batch.has_value()) {
        paste(batch->images, batch->shape, x, top, sheet);
      } else {
        paste_bad({3, options.image.size, options.image.size}, x, top, sheet);
        if (is_evaluation) problems.push_back(batch.error().message);
      }
    }
  }
  return sheet;
}

}  // namespace tern
