// What an image is before, while and after it is decoded. Start here for pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// How a sample's bytes are stored. Written into indexes and shards: never renumber, only append.
enum class ImageFormat : uint8_t {
  raw = 0,  // pixels, channel by channel (CHW), one byte each
  jpeg = 1,
  png = 2,
};

// Neither side of an image is longer: what two bytes of an index hold.
inline constexpr int64_t kImageSideMax = 65'535;
// A header that claims more is taken for damage before memory is: 256 million pixels.
inline constexpr int64_t kImagePixelsMax = int64_t{1} << 28;

struct ImageSize {
  int32_t width = 0;
  int32_t height = 0;

  int64_t pixels() const { return int64_t{width} * height; }
  bool operator==(const ImageSize&) const = default;
};

// What the header of an encoded image says.
struct ImageInfo {
  ImageFormat format = ImageFormat::raw;
  ImageSize size;           // upright: as a person sees it, after EXIF's rotation
  uint8_t channels = 3;     // after decoding: 3, but 1 or 3 for raw
  uint8_t orientation = 1;  // EXIF's, 1 to 8; 1 is upright as stored
  bool is_progressive = false;

  bool operator==(const ImageInfo&) const = default;
};

// Whole pixels of an image: columns [left, left + width), rows [top, top + height).
struct Box {
  int32_t left = 0;
  int32_t top = 0;
  int32_t width = 0;
  int32_t height = 0;

  bool operator==(const Box&) const = default;
};

// What is to be made of an image: the part `left`.. in pixels of the upright image (need not be
// whole ones), resized to out_width x out_height, then perhaps mirrored left to right. The filter
// sees the pixels that the part touches and none beyond.
struct View {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  int32_t out_width = 0;
  int32_t out_height = 0;
  bool mirror = false;
  // May a JPEG be decoded at 1/2, 1/4 or 1/8 where the part is still at least as large as the
  // result then? Faster for large photos; not the same pixels as decoding whole.
  bool may_reduce = false;

  bool operator==(const View&) const = default;
};

// Decoded RGB, three bytes a pixel, row after row without gaps. Kept and filled again, so that its
// memory is taken once.
struct Pixels {
  ImageSize size;
  std::vector<uint8_t> rgb;
};

// Looks at the first bytes only: what it is, how large, which way up. `corrupt` with the reason if
// it is no image that we decode, or claims more than kImageSideMax or kImagePixelsMax.
Result<ImageInfo> probe_image(BytesView encoded);

}  // namespace tern
