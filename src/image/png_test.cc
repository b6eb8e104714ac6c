#include "image/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>

#include "core/random.h"
#include "image/decoder.h"
#include "image/orientation.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct PngKind {
  uint32_t width = 0;
  uint32_t height = 0;
  int depth = 8;
  int colour = PNG_COLOR_TYPE_RGB;
  int interlace = PNG_INTERLACE_NONE;
  std::vector<png_color> palette;
  std::vector<png_byte> palette_alpha;
  Bytes exif_before, exif_behind;  // of the pixels
};

void take_bytes(png_structp png, png_bytep from, size_t size) {
  static_cast<Bytes*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(from), size);
}

void write_exif(png_structp png, const Bytes& exif) {
  if (exif.empty()) return;
  const auto* name = reinterpret_cast<png_const_bytep>("eXIf");
  png_write_chunk(png, name, reinterpret_cast<png_const_bytep>(exif.data()), exif.size());
}

// Any PNG, of rows as the format packs them. libpng ends the test on a mistake in it.
Bytes make_png(const PngKind& kind, std::vector<std::vector<png_byte>> rows) {
  Bytes made;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &made, take_bytes, nullptr);
  png_set_IHDR(png, info, kind.width, kind.height, kind.depth, kind.colour, kind.interlace,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  }
  if (!kind.palette_alpha.empty()) {
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()),
                 nullptr);
  }
  png_write_info(png, info);
  write_exif(png, kind.exif_before);
  std::vector<png_bytep> pointers;
  for (std::vector<png_byte>& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  write_exif(png, kind.exif_behind);
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return made;
}

std::vector<uint8_t> pixels_of(BytesView encoded) {
  Pixels pixels;
  const Status status = read_png(encoded, pixels);
  EXPECT_TRUE(status) << status.error().to_string();
  return pixels.rgb;
}

Pixels noise(int32_t width, int32_t height) {
  Pixels pixels{.size = {width, height}};
  pixels.rgb.resize(static_cast<size_t>(3 * width * height));
  Random random(1, Stream::fingerprint, 0);
  for (uint8_t& byte : pixels.rgb) byte = static_cast<uint8_t>(random.below(256));
  return pixels;
}

Bytes written(const Pixels& pixels) {
  Result<Bytes> png = write_png(pixels);
  EXPECT_TRUE(png);
  return std::move(png).value();
}

TEST(Png, WhatIsWrittenIsRead) {
  for (const ImageSize size : {ImageSize{1, 1}, {7, 5}, {300, 2}, {2, 300}}) {
    const Pixels pixels = noise(size.width, size.height);
    const Bytes png = written(pixels);
    const Result<ImageInfo> info = probe_image(png);
    ASSERT_TRUE(info);
    EXPECT_EQ(*info, (ImageInfo{.format = ImageFormat::png, .size = size}));
    Pixels read{.size = {1, 1}, .rgb = std::vector<uint8_t>(1000, 3)};
    ASSERT_TRUE(read_png(png, read));
    EXPECT_EQ(read.size, size);
    EXPECT_EQ(read.rgb, pixels.rgb);
  }
}

TEST(Png, GreyIsRepeated) {
  const PngKind kind{.width = 2, .height = 1, .colour = PNG_COLOR_TYPE_GRAY};
  EXPECT_THAT(pixels_of(make_png(kind, {{9, 200}})), ElementsAre(9, 9, 9, 200, 200, 200));
}

TEST(Png, OneBitIsBlackAndWhite) {
  const PngKind kind{.width = 3, .height = 1, .depth = 1, .colour = PNG_COLOR_TYPE_GRAY};
  EXPECT_THAT(pixels_of(make_png(kind, {{0b01000000}})),
              ElementsAre(0, 0, 0, 255, 255, 255, 0, 0, 0));
}

TEST(Png, AlphaIsDroppedAndNotMixedIn) {
  const PngKind kind{.width = 2, .height = 1, .colour = PNG_COLOR_TYPE_RGBA};
  EXPECT_THAT(pixels_of(make_png(kind, {{1, 2, 3, 0, 4, 5, 6, 128}})),
              ElementsAre(1, 2, 3, 4, 5, 6));
  const PngKind grey{.width = 2, .height = 1, .colour = PNG_COLOR_TYPE_GRAY_ALPHA};
  EXPECT_THAT(pixels_of(make_png(grey, {{8, 0, 9, 1}})), ElementsAre(8, 8, 8, 9, 9, 9));
}

TEST(Png, APaletteIsLookedUpAndItsTransparencyDropped) {
  const PngKind kind{.width = 3,
                     .height = 1,
                     .colour = PNG_COLOR_TYPE_PALETTE,
                     .palette = {{10, 20, 30}, {40, 50, 60}},
                     .palette_alpha = {0, 128}};
  EXPECT_THAT(pixels_of(make_png(kind, {{1, 0, 1}})),
              ElementsAre(40, 50, 60, 10, 20, 30, 40, 50, 60));
}

TEST(Png, SixteenBitsAreDividedBy257AndRounded) {
  PngKind kind{.width = 65'535, .height = 1, .depth = 16, .colour = PNG_COLOR_TYPE_GRAY};
  std::vector<png_byte> row;
  for (uint32_t i = 0; i < kind.width; ++i) {
    row.push_back(static_cast<png_byte>(i >> 8));
    row.push_back(static_cast<png_byte>(i & 0xFF));
  }
  const std::vector<uint8_t> pixels = pixels_of(make_png(kind, {row}));
  ASSERT_EQ(pixels.size(), size_t{3} * kind.width);
  for (uint32_t i = 0; i < kind.width; ++i) {
    ASSERT_EQ(pixels[size_t{3} * i], std::lround(i / 257.0)) << i;
  }
}

TEST(Png, InterlacedIsTheSame) {
  const Pixels pixels = noise(13, 11);
  std::vector<std::vector<png_byte>> rows;
  for (auto row = pixels.rgb.begin(); row != pixels.rgb.end(); row += 39) {
    rows.emplace_back(row, row + 39);
  }
  const PngKind kind{.width = 13, .height = 11, .interlace = PNG_INTERLACE_ADAM7};
  EXPECT_EQ(pixels_of(make_png(kind, rows)), pixels.rgb);
}

// A TIFF header and a table of one entry.
Bytes exif_of(char orientation) {
  return Bytes("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19) + orientation +
         Bytes(6, '\0');
}

struct Rotated {
  Pixels stored = noise(13, 11);
  PngKind kind{.width = 13, .height = 11};

  Bytes encoded() const {
    std::vector<std::vector<png_byte>> rows;
    for (auto row = stored.rgb.begin(); row != stored.rgb.end(); row += 39) {
      rows.emplace_back(row, row + 39);
    }
    return make_png(kind, rows);
  }
};

TEST(Png, StandsUprightAsExifSays) {
  for (char orientation = 1; orientation <= 8; ++orientation) {
    for (const bool is_behind : {false, true}) {
      Rotated image;
      (is_behind ? image.kind.exif_behind : image.kind.exif_before) = exif_of(orientation);
      const Bytes png = image.encoded();
      const Result<ImageInfo> info = probe_image(png);
      ASSERT_TRUE(info);
      EXPECT_EQ(info->orientation, orientation);
      Pixels upright;
      turn_upright(turn_of(info->orientation), image.stored, upright);
      EXPECT_EQ(info->size, upright.size);
      Pixels whole;
      ImageDecoder decoder;
      ASSERT_TRUE(decoder.decode_rgb(png, *info, whole));
      EXPECT_EQ(whole.size, upright.size);
      EXPECT_EQ(whole.rgb, upright.rgb);
      // One pixel, away from the middle.
      const View corner{
          .left = 2, .top = 1, .width = 1, .height = 1, .out_width = 1, .out_height = 1};
      std::vector<uint8_t> pixel(3);
      ASSERT_TRUE(decoder.decode(png, *info, corner, pixel));
      const auto at = upright.rgb.begin() + 3 * (upright.size.width + 2);
      EXPECT_EQ(pixel, std::vector<uint8_t>(at, at + 3));
    }
  }
}

// An index of version 0.3 says of every PNG that it is upright.
TEST(Png, IsLeftAsStoredWhereItsIndexSaysSo) {
  Rotated image;
  image.kind.exif_before = exif_of(6);
  const Bytes png = image.encoded();
  ImageInfo info{.format = ImageFormat::png, .size = image.stored.size};
  Pixels whole;
  ASSERT_TRUE(ImageDecoder().decode_rgb(png, info, whole));
  EXPECT_EQ(whole.rgb, image.stored.rgb);
  info.orientation = 5;
  EXPECT_FALSE(ImageDecoder().decode_rgb(png, info, whole));
}

TEST(Png, OddExifIsIgnored) {
  for (const Bytes& exif : {exif_of(0), exif_of(9), exif_of(6).substr(0, 15), Bytes("II"),
                            Bytes(20, '\xFF'), "Exif" + exif_of(6)}) {
    Rotated image;
    image.kind.exif_before = exif;
    const Bytes png = image.encoded();
    const Result<ImageInfo> info = probe_image(png);
    ASSERT_TRUE(info);
    EXPECT_EQ(*info, (ImageInfo{.format = ImageFormat::png, .size = image.stored.size}));
    EXPECT_EQ(pixels_of(png), image.stored.rgb);
  }
}

// A sanitizer ends the program where malloc() fails. gcc and clang each have a way to tell.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TERN_SANITIZED
#endif
#endif
#if !defined(TERN_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// All that malloc() still has in pieces of at least `bytes` is taken and never given back.
void leave_no_memory(size_t bytes) {
  const rlimit no_more{.rlim_cur = 1, .rlim_max = RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &no_more) != 0) std::_Exit(2);
  for (size_t size = size_t{1} << 30; size >= bytes; size /= 2) {
    // Volatile, or the compiler sees that nobody uses the memory and takes none.
    for (void* volatile kept = std::malloc(size); kept != nullptr;) kept = std::malloc(size);
  }
}

// It says nothing about the image, which must not be left out as a bad one.
TEST(PngDeathTest, NoMemoryIsNotTheImagesFault) {
  const Bytes png = written(noise(300, 300));
  Pixels pixels = noise(300, 300);
  const auto read = [&] {
    leave_no_memory(4096);
    const Status status = read_png(png, pixels);
    std::_Exit(status ? 3 : status.error().code == Code::exhausted ? 0 : 4);
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(0), "");
}
#endif

TEST(Png, AnEarlyEndIsFoundWhereverItIs) {
  const Bytes png = written(noise(20, 20));
  for (size_t size = 0; size < png.size(); ++size) {
    Pixels pixels;
    const Status status = read_png(BytesView(png).substr(0, size), pixels);
    ASSERT_FALSE(status) << size << " of " << png.size();
    ASSERT_EQ(status.error().code, Code::corrupt);
  }
}

TEST(Png, AFlippedBitIsFoundOrHarmless) {
  const Pixels pixels = noise(9, 9);
  const Bytes png = written(pixels);
  size_t refused = 0;
  for (size_t bit = 0; bit < png.size() * 8; ++bit) {
    Bytes damaged = png;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    Pixels read;
    const Status status = read_png(damaged, read);
    if (status) {
      ASSERT_EQ(read.rgb, pixels.rgb) << bit;
    } else {
      ASSERT_EQ(status.error().code, Code::corrupt);
      ++refused;
    }
  }
  // Every byte of these few chunks is under a checksum or is one.
  EXPECT_EQ(refused, png.size() * 8);
}

TEST(Png, ASizeThatTheFileCannotHoldTakesNoMemory) {
  Bytes png = written(noise(4, 4));
  const auto set_size = [&](uint32_t width, uint32_t height) {
    for (size_t i = 0; i < 4; ++i) {
      png[16 + i] = static_cast<char>(width >> (24 - 8 * i));
      png[20 + i] = static_cast<char>(height >> (24 - 8 * i));
    }
  };
  for (const auto& [width, height] : std::vector<std::pair<uint32_t, uint32_t>>{{0, 4},
                                                                                {4, 0},
                                                                                {65'536, 1},
                                                                                {1, 65'536},
                                                                                {65'535, 65'535},
                                                                                {0xFFFFFFFF, 1},
                                                                                {16'000, 16'000}}) {
    set_size(width, height);
    Pixels pixels;
    const Status status = read_png(png, pixels);
    ASSERT_FALSE(status) << width << "x" << height;
    EXPECT_EQ(status.error().code, Code::corrupt);
    EXPECT_EQ(pixels.rgb.capacity(), 0U);
    EXPECT_FALSE(probe_image(png));
  }
}

TEST(Png, WhatIsNoImageSaysSo) {
  for (const BytesView bytes : {BytesView(), BytesView("GIF89a......"), BytesView("\x89PN"),
                                BytesView("\x89PNG\r\n\x1A\n")}) {
    const Result<ImageInfo> info = probe_image(bytes);
    ASSERT_FALSE(info);
    EXPECT_EQ(info.error().code, Code::corrupt);
    EXPECT_THAT(info.error().message, HasSubstr("leave it out"));
  }
}

}  // namespace
}  // namespace tern
