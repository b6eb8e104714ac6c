#include "import/representation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "image/jpeg.h"
#include "image/resize.h"

namespace tern {
namespace {

constexpr int kQualityDefault = 90;
constexpr int kQualityMax = 100;

Error not_understood(std::string_view text) {
  return fail(
      Code::invalid,
      fmt::format("no representation is called '{}'; there are orig (the bytes as they "
                  "are), base (progressive JPEG made baseline, losslessly), "
                  "short:SIDE:qQUALITY (resized, as in short:256:q90; SIDE 1 to {}, QUALITY "
                  "1 to {}) and raw (decoded pixels)",
                  text, kImageSideMax, kQualityMax));
}

// A whole number in 1..max that is all of the text, without sign or leading zeros.
std::optional<int> parse_number(std::string_view text, int64_t max) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || text.front() == '0') return std::nullopt;
  if (number < 1 || number > max) return std::nullopt;
  return number;
}

ImageSize shrunk(ImageSize size, int side) {
  const int64_t shorter = std::min(size.width, size.height);
  if (shorter <= side) return size;
  const auto scale = [&](int64_t length) {
    return static_cast<int32_t>((length * side + shorter / 2) / shorter);
  };
  return {scale(size.width), scale(size.height)};
}

// The resizer writes channel by channel, the encoder reads pixel by pixel.
void resize_pixels(Pixels& pixels, ImageSize size) {
  const View view{.width = static_cast<double>(pixels.size.width),
                  .height = static_cast<double>(pixels.size.height),
                  .out_width = size.width,
                  .out_height = size.height};
  const auto plane = static_cast<size_t>(size.pixels());
  std::vector<uint8_t> planes(3 * plane);
  Resizer().resize(pixels, view, planes);
  pixels.size = size;
  pixels.rgb.resize(3 * plane);
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = 0; c < 3; ++c) pixels.rgb[3 * i + c] = planes[c * plane + i];
  }
}

Result<Bytes> short_side(const Representation& representation, const Bytes& bytes,
                         const ImageInfo& info, ImageDecoder& decoder) {
  Pixels pixels;
  RETURN_IF_ERROR(decoder.decode_rgb(bytes, info, pixels));
  const ImageSize size = shrunk(pixels.size, representation.side);
  if (size != pixels.size) resize_pixels(pixels, size);
  return encode_jpeg(pixels, representation.quality);
}

Result<Bytes> raw_pixels(const Bytes& bytes, ImageInfo& info, ImageDecoder& decoder) {
  const auto length = static_cast<size_t>(info.channels * info.size.pixels());
  Bytes pixels(length, '\0');
  RETURN_IF_ERROR(decoder.decode_whole(
      bytes, info, std::span(reinterpret_cast<uint8_t*>(pixels.data()), length)));
  info = {.format = ImageFormat::raw, .size = info.size, .channels = info.channels};
  return pixels;
}

}  // namespace

std::string Representation::to_string() const {
  switch (kind) {
    case Kind::orig: return "orig";
    case Kind::base: return "base";
    case Kind::short_side: return fmt::format("short:{}:q{}", side, quality);
    case Kind::raw: return "raw";
  }
  return "orig";
}

Result<Representation> parse_representation(std::string_view text) {
  using Kind = Representation::Kind;
  if (text == "orig") return Representation{.kind = Kind::orig};
  if (text == "base") return Representation{.kind = Kind::base};
  if (text == "raw") return Representation{.kind = Kind::raw};
  constexpr std::string_view kShort = "short:";
  if (!text.starts_with(kShort)) return not_understood(text);
  std::string_view rest = text.substr(kShort.size());
  std::optional<int> quality = kQualityDefault;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const std::string_view last = rest.substr(colon + 1);
    if (!last.starts_with('q')) return not_understood(text);
    quality = parse_number(last.substr(1), kQualityMax);
    rest = rest.substr(0, colon);
  }
  const std::optional<int> side = parse_number(rest, kImageSideMax);
  if (!side || !quality) return not_understood(text);
  return Representation{.kind = Kind::short_side, .side = *side, .quality = *quality};
}

Result<Bytes> represent(const Representation& representation, Bytes bytes, ImageInfo& info,
                        ImageDecoder& decoder) {
  if (info.format == ImageFormat::raw) return bytes;
  switch (representation.kind) {
    case Representation::Kind::orig: return bytes;
    case Representation::Kind::base: {
      if (info.format != ImageFormat::jpeg || !info.is_progressive) return bytes;
      ASSIGN_OR_RETURN(Bytes baseline, jpeg_to_baseline(bytes));
      ASSIGN_OR_RETURN(info, probe_image(baseline));
      return baseline;
    }
    case Representation::Kind::short_side: {
      ASSIGN_OR_RETURN(Bytes resized, short_side(representation, bytes, info, decoder));
      ASSIGN_OR_RETURN(info, probe_image(resized));
      return resized;
    }
    case Representation::Kind::raw: return raw_pixels(bytes, info, decoder);
  }
  return bytes;
}

}  // namespace tern
