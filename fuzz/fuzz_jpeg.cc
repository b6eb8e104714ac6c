// Probing, decoding part of and writing again whatever claims to be a JPEG.
#include <algorithm>
#include <utility>

#include "fuzz/fuzz.h"
#include "image/decoder.h"
#include "image/jpeg.h"

namespace tern {
namespace {

// Larger ones only make the fuzzer slow: what it looks for is in the parsers.
constexpr int64_t kPixelsMax = 1 << 20;

// A number below `limit` that depends on the bytes, so that the fuzzer can choose it.
int32_t pick(BytesView bytes, size_t at, int32_t limit) {
  if (at >= bytes.size()) return 0;
  return static_cast<uint8_t>(bytes[bytes.size() - 1 - at]) * limit / 256;
}

bool is_cut_of(const Pixels& part, const Box& box, const Pixels& whole) {
  const auto row_bytes = static_cast<size_t>(box.width) * 3;
  for (int32_t y = 0; y < box.height; ++y) {
    const auto from = (static_cast<size_t>(box.top + y) * static_cast<size_t>(whole.size.width) +
                       static_cast<size_t>(box.left)) *
                      3;
    const auto row = part.rgb.begin() + static_cast<ptrdiff_t>(y) * box.width * 3;
    if (!std::equal(row, row + static_cast<ptrdiff_t>(row_bytes),
                    whole.rgb.begin() + static_cast<ptrdiff_t>(from))) {
      return false;
    }
  }
  return true;
}

// What JpegReader::read() promises: a part is the part of the whole, at every size.
void try_parts(BytesView bytes, const ImageInfo& info) {
  ImageSize stored = info.size;
  if (info.orientation >= 5) std::swap(stored.width, stored.height);
  const int reduce = 1 << pick(bytes, 4, 4);
  stored.width = (stored.width + reduce - 1) / reduce;
  stored.height = (stored.height + reduce - 1) / reduce;
  JpegReader reader;
  Pixels whole, part;
  if (!reader.read(bytes, {0, 0, stored.width, stored.height}, reduce, whole)) return;
  Box box{.left = pick(bytes, 5, stored.width), .top = pick(bytes, 6, stored.height)};
  box.width = 1 + pick(bytes, 7, stored.width - box.left);
  box.height = 1 + pick(bytes, 8, stored.height - box.top);
  TERN_CHECK(reader.read(bytes, box, reduce, part).has_value());
  TERN_CHECK(is_cut_of(part, box, whole));
}

void try_view(BytesView bytes, const ImageInfo& info, ImageDecoder& decoder) {
  View view{.left = static_cast<double>(pick(bytes, 0, info.size.width)),
            .top = static_cast<double>(pick(bytes, 1, info.size.height)),
            .out_width = 7,
            .out_height = 5,
            .mirror = pick(bytes, 2, 2) == 1,
            .may_reduce = pick(bytes, 3, 2) == 1};
  view.width = info.size.width - view.left;
  view.height = info.size.height - view.top;
  std::vector<uint8_t> out(static_cast<size_t>(info.channels) * 7 * 5);
  decoder.decode(bytes, info, view, out).permit_unchecked_error();
}

void try_jpeg(BytesView bytes) {
  const Result<ImageInfo> info = probe_image(bytes);
  if (!info || info->size.pixels() > kPixelsMax) return;
  ImageDecoder decoder;
  Pixels pixels;
  const Status decoded = decoder.decode_rgb(bytes, *info, pixels);
  try_view(bytes, *info, decoder);
  if (info->format != ImageFormat::jpeg) return;
  try_parts(bytes, *info);
  const Result<Bytes> baseline = jpeg_to_baseline(bytes);
  if (!baseline) return;
  const Result<ImageInfo> again = probe_image(*baseline);
  TERN_CHECK(again.has_value());
  if (!decoded) return;
  // Any decoder gives the same pixels.
  Pixels same;
  TERN_CHECK(decoder.decode_rgb(*baseline, *again, same).has_value());
  TERN_CHECK(same.size == pixels.size && same.rgb == pixels.rgb);
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_jpeg)
