// What a JPEG's markers say, read without libjpeg: an import looks at a million of them.
// The markers are those of ITU T.81, annex B.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "image/jpeg.h"
#include "image/orientation.h"

namespace tern {
namespace {

constexpr int64_t kLibjpegSideMax = 65'500;

constexpr BytesView kExif("Exif\0\0", 6);

// Big-endian. REQUIRES: the bytes are there.
uint32_t number_at(BytesView bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8U | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// "Start of frame": how it is coded and how large it is.
Status read_frame(uint8_t marker, BytesView frame, ImageInfo& info) {
  constexpr uint8_t kLossless = 0xC3;
  constexpr uint8_t kArithmetic = 0xC9;
  constexpr uint8_t kArithmeticProgressive = 0xCA;
  if (marker >= kLossless && marker != kArithmetic && marker != kArithmeticProgressive) {
    return fail(Code::corrupt,
                "JPEG: of a kind (lossless or hierarchical) that is not decoded; "
                "save it as baseline or progressive JPEG");
  }
  if (info.size.width != 0) return fail(Code::corrupt, "JPEG: two frames in one picture");
  if (frame.size() < 6) return fail(Code::corrupt, "JPEG: its frame header is too short");
  if (number_at(frame, 0, 1) != 8) {
    return fail(Code::corrupt, "JPEG: " + std::to_string(number_at(frame, 0, 1)) +
                                   " bits a sample are not decoded; save it with 8");
  }
  const int64_t height = number_at(frame, 1, 2);
  const int64_t width = number_at(frame, 3, 2);
  const size_t components = number_at(frame, 5, 1);
  const std::string claims = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width == 0 || height == 0 || std::max(width, height) > kLibjpegSideMax ||
      width * height > kImagePixelsMax) {
    return fail(Code::corrupt, "JPEG: it claims " + claims);
  }
  if ((components != 1 && components != 3 && components != 4) ||
      frame.size() != 6 + 3 * components) {
    return fail(Code::corrupt, "JPEG: it claims " + std::to_string(components) + " components");
  }
  info.size = {static_cast<int32_t>(width), static_cast<int32_t>(height)};
  info.is_progressive = marker == 0xC2 || marker == kArithmeticProgressive;
  return {};
}

// A frame header, not one of the tables (DHT, JPG, DAC) that share its range.
bool is_frame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool has_no_length(uint8_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7); }

// The next marker at or after `at`, which moves behind it. Other bytes in between are passed over
// as libjpeg does.
std::optional<uint8_t> next_marker(BytesView bytes, size_t& at) {
  while ((at = bytes.find('\xFF', at)) != BytesView::npos) {
    at = bytes.find_first_not_of('\xFF', at);
    if (at == BytesView::npos) return std::nullopt;
    const auto marker = static_cast<uint8_t>(bytes[at++]);
    if (marker != 0) return marker;
  }
  return std::nullopt;
}

}  // namespace

Result<ImageInfo> probe_jpeg(BytesView encoded) {
  constexpr uint8_t kStart = 0xD8;
  constexpr uint8_t kEnd = 0xD9;
  constexpr uint8_t kScan = 0xDA;
  constexpr uint8_t kApp1 = 0xE1;
  if (!encoded.starts_with("\xFF\xD8")) {
    return fail(Code::corrupt, "JPEG: it does not begin as one");
  }
  ImageInfo info{.format = ImageFormat::jpeg};
  bool has_exif = false;
  size_t at = 2;
  while (const std::optional<uint8_t> marker = next_marker(encoded, at)) {
    if (has_no_length(*marker)) continue;
    if (*marker == kStart || *marker == kEnd) {
      return fail(Code::corrupt, "JPEG: no picture follows its header");
    }
    if (encoded.size() - at < 2) break;
    const size_t length = number_at(encoded, at, 2);
    if (length < 2) return fail(Code::corrupt, "JPEG: a part of its header has a bad length");
    if (length > encoded.size() - at) break;
    const BytesView part = encoded.substr(at + 2, length - 2);
    at += length;
    if (is_frame(*marker)) RETURN_IF_ERROR(read_frame(*marker, part, info));
    if (*marker == kApp1 && !has_exif && part.starts_with(kExif)) {
      has_exif = true;
      info.orientation = exif_orientation(part.substr(kExif.size()));
    }
    if (*marker != kScan) continue;
    if (info.size.width == 0) return fail(Code::corrupt, "JPEG: its header gives no size");
    // Orientations 5 to 8 lie on their side.
    if (info.orientation >= 5) std::swap(info.size.width, info.size.height);
    return info;
  }
  return fail(Code::corrupt, "JPEG: the data ends within the header");
}

}  // namespace tern
