// Probing and decoding whatever claims to be a PNG.
#include <zlib.h>

#include "fuzz/fuzz.h"
#include "image/decoder.h"
#include "image/png.h"

namespace tern {
namespace {

constexpr int64_t kPixelsMax = 1 << 20;

uint32_t big_endian(BytesView bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

Bytes to_big_endian(uLong number) {
  Bytes bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

Bytes compressed(BytesView plain) {
  uLongf room = compressBound(plain.size());
  Bytes packed(room, '\0');
  TERN_CHECK(compress2(reinterpret_cast<Bytef*>(packed.data()), &room,
                       reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 1) == Z_OK);
  packed.resize(room);
  return packed;
}

// Every chunk under a checksum that is right, which is what a fuzzer would not find. With `pack`
// the data of the picture is plain rows and is compressed here, which has a checksum of its own.
Bytes signed_again(BytesView bytes, bool pack) {
  constexpr size_t kSignature = 8, kAround = 12;
  Bytes png(bytes.substr(0, kSignature));
  bytes.remove_prefix(png.size());
  while (bytes.size() >= kAround) {
    const size_t length = big_endian(bytes);
    if (length > bytes.size() - kAround) break;
    Bytes body(bytes.substr(4, 4 + length));
    if (pack && body.starts_with("IDAT")) body = "IDAT" + compressed(BytesView(body).substr(4));
    const auto* checked = reinterpret_cast<const Bytef*>(body.data());
    const uLong sum = crc32(0, checked, static_cast<uInt>(body.size()));
    png += to_big_endian(body.size() - 4) + body + to_big_endian(sum);
    bytes.remove_prefix(kAround + length);
  }
  return png.append(bytes);
}

void try_png(BytesView input) {
  const uint8_t choice = take_choice(input);
  const Bytes bytes = (choice & 1) != 0 ? signed_again(input, (choice & 2) != 0) : Bytes(input);
  const Result<ImageInfo> info = probe_png(bytes);
  if (!info || info->size.pixels() > kPixelsMax) return;
  Pixels pixels;
  if (!read_png(bytes, pixels)) return;
  Pixels upright;
  TERN_CHECK(ImageDecoder().decode_rgb(bytes, *info, upright).has_value());
  TERN_CHECK(upright.size == info->size && upright.rgb.size() == pixels.rgb.size());
  // What was read can be written, and is the same when read again.
  const Result<Bytes> again = write_png(pixels);
  TERN_CHECK(again.has_value());
  Pixels copy;
  TERN_CHECK(read_png(*again, copy).has_value());
  TERN_CHECK(copy.size == pixels.size && copy.rgb == pixels.rgb);
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_png)
