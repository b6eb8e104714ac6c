#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "image/jpeg.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

Pixels gradient(int width, int height) {
  Pixels pixels{.size = {width, height}, .rgb = {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels.rgb.push_back(static_cast<uint8_t>(255 * x / width));
      pixels.rgb.push_back(static_cast<uint8_t>(255 * y / height));
      pixels.rgb.push_back(static_cast<uint8_t>(128));
    }
  }
  return pixels;
}

double mean_difference(const Pixels& a, const Pixels& b) {
  double sum = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

void expect_same_in_baseline(const Bytes& encoded) {
  const Result<Bytes> baseline = jpeg_to_baseline(encoded);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  const Result<ImageInfo> before = probe_jpeg(encoded);
  const Result<ImageInfo> after = probe_jpeg(*baseline);
  ASSERT_TRUE(before && after);
  EXPECT_FALSE(after->is_progressive);
  EXPECT_EQ(after->size, before->size);
  EXPECT_EQ(after->orientation, before->orientation);
  EXPECT_TRUE(decode_plainly(encoded).rgb == decode_plainly(*baseline).rgb);
  // Our own reader too, which looks at Adobe's marker.
  JpegReader reader;
  Pixels pixels_before;
  Pixels pixels_after;
  const Box all{0, 0, before->size.width, before->size.height};
  ASSERT_TRUE(reader.read(encoded, all, 1, pixels_before));
  ASSERT_TRUE(reader.read(*baseline, all, 1, pixels_after));
  EXPECT_TRUE(pixels_before.rgb == pixels_after.rgb);
}

// A segment that says orientation 6.
Bytes turned_exif() {
  return Bytes(
      "\xFF\xE1\x00\x22"
      "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
      36);
}

TEST(JpegToBaseline, KeepsThePixels) {
  for (const int across : {1, 2, 4}) {
    for (const int down : {1, 2}) {
      for (const bool is_progressive : {true, false}) {
        expect_same_in_baseline(make_jpeg({.width = 67,
                                           .height = 45,
                                           .luma_across = across,
                                           .luma_down = down,
                                           .is_progressive = is_progressive,
                                           .restart_mcus = across}));
      }
    }
  }
}

TEST(JpegToBaseline, KeepsThePixelsOfEveryColourSpace) {
  const std::vector<std::pair<int, J_COLOR_SPACE>> spaces = {
      {1, JCS_GRAYSCALE}, {3, JCS_RGB}, {4, JCS_CMYK}, {4, JCS_YCCK}};
  for (const auto& [components, colours] : spaces) {
    expect_same_in_baseline(make_jpeg({.width = 40,
                                       .height = 30,
                                       .components = components,
                                       .colours = colours,
                                       .is_progressive = true}));
  }
  expect_same_in_baseline(
      make_jpeg({.width = 40, .height = 30, .luma_across = 2, .is_arithmetic = true}));
}

TEST(JpegToBaseline, CmykWithoutAdobesMarkerStaysWithout) {
  Bytes encoded = make_jpeg(
      {.width = 40, .height = 30, .components = 4, .colours = JCS_CMYK, .is_progressive = true});
  const size_t adobe = encoded.find("\xFF\xEE");
  ASSERT_NE(adobe, Bytes::npos);
  encoded.erase(adobe, 16);
  expect_same_in_baseline(encoded);
}

TEST(JpegToBaseline, KeepsMarkersAndWritesNoneTwice) {
  const Bytes exif = turned_exif();
  const Bytes colours("\xFF\xE2\x00\x12ICC_PROFILE\0abcd", 20);
  const Bytes comment("\xFF\xFE\x00\x07words", 9);
  Bytes encoded = make_jpeg({.width = 40, .height = 30, .is_progressive = true});
  const size_t after_jfif = 2 + 18;
  ASSERT_EQ(encoded.substr(6, 4), "JFIF");
  encoded.insert(after_jfif, exif + colours + comment);
  const Result<Bytes> baseline = jpeg_to_baseline(encoded);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  for (const Bytes& segment : {exif, colours, comment}) {
    EXPECT_NE(baseline->find(segment), Bytes::npos);
  }
  EXPECT_EQ(baseline->find("JFIF"), baseline->rfind("JFIF"));
  const Result<ImageInfo> info = probe_jpeg(*baseline);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->orientation, 6);
}

// Decoders do not see those, so that an orientation there would turn the picture.
TEST(JpegToBaseline, DropsMarkersBehindTheFirstScan) {
  const Bytes comment("\xFF\xFE\x00\x07words", 9);
  Bytes encoded = make_jpeg({.width = 40, .height = 30, .is_progressive = true});
  encoded.insert(encoded.size() - 2, turned_exif());
  encoded.insert(2 + 18, comment);
  const Result<Bytes> baseline = jpeg_to_baseline(encoded);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  EXPECT_EQ(baseline->find("Exif"), Bytes::npos);
  EXPECT_NE(baseline->find(comment), Bytes::npos);
}

// Adobe's marker says that CMYK is inverted, but not to decoders that have begun.
TEST(JpegToBaseline, KeepsThePixelsOfCmykWhoseAdobeMarkerComesLate) {
  for (const bool has_scans : {false, true}) {
    Bytes encoded = make_jpeg({.width = 40,
                               .height = 30,
                               .components = 4,
                               .colours = JCS_CMYK,
                               .is_progressive = has_scans});
    const size_t at = encoded.find("\xFF\xEE");
    ASSERT_NE(at, Bytes::npos);
    const Bytes adobe = encoded.substr(at, 16);
    encoded.erase(at, 16);
    encoded.insert(encoded.size() - 2, adobe);
    expect_same_in_baseline(encoded);
  }
}

TEST(JpegToBaseline, UnfinishedImagesComeBackAsTheyAre) {
  const Bytes encoded =
      make_jpeg({.width = 40, .height = 30, .is_progressive = true, .is_incomplete = true});
  const Result<Bytes> same = jpeg_to_baseline(encoded);
  ASSERT_TRUE(same);
  EXPECT_TRUE(*same == encoded);
}

// Its quantisation table may be of zeros, which is damage only once it has a scan.
TEST(JpegToBaseline, ImagesWithAComponentInNoScanComeBackAsTheyAre) {
  Bytes bytes = make_jpeg({.width = 20, .height = 12, .has_a_scan_each = true});
  bytes.resize(bytes.rfind("\xFF\xDA"));
  bytes += "\xFF\xD9";
  const Result<Bytes> same = jpeg_to_baseline(bytes);
  ASSERT_TRUE(same);
  EXPECT_TRUE(*same == bytes);
}

TEST(JpegToBaseline, GrowsItsOutputAsNeeded) {
  const Bytes encoded = make_jpeg({.width = 700, .height = 500, .is_progressive = true});
  ASSERT_GT(encoded.size(), 200'000U);
  expect_same_in_baseline(encoded);
}

TEST(JpegToBaseline, RefusesDamage) {
  const Bytes encoded = make_jpeg({.width = 40, .height = 30, .is_progressive = true});
  for (const Bytes& bytes : {Bytes(), Bytes("not an image"), encoded.substr(0, 100),
                             encoded.substr(0, encoded.size() - 10)}) {
    const Result<Bytes> baseline = jpeg_to_baseline(bytes);
    ASSERT_FALSE(baseline);
    EXPECT_EQ(baseline.error().code, Code::corrupt);
  }
}

TEST(EncodeJpeg, ReadsBackNearly) {
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{121, 93}, ImageSize{300, 200}}) {
    const Pixels pixels = gradient(size.width, size.height);
    const Result<Bytes> encoded = encode_jpeg(pixels, 95);
    ASSERT_TRUE(encoded) << encoded.error().to_string();
    const Pixels back = decode_plainly(*encoded);
    ASSERT_EQ(back.size, size);
    EXPECT_LT(mean_difference(pixels, back), 4);
  }
}

TEST(EncodeJpeg, WritesBaselineFourTwoZero) {
  const Result<Bytes> encoded = encode_jpeg(gradient(40, 30), 90);
  ASSERT_TRUE(encoded);
  const size_t frame = encoded->find("\xFF\xC0");
  ASSERT_NE(frame, Bytes::npos);
  EXPECT_EQ((*encoded)[frame + 11], 0x22);  // luma has twice the samples both ways
  EXPECT_EQ((*encoded)[frame + 14], 0x11);
}

TEST(EncodeJpeg, QualityIsPaidInBytes) {
  const Pixels pixels = gradient(200, 200);
  const Result<Bytes> worst = encode_jpeg(pixels, 1);
  const Result<Bytes> best = encode_jpeg(pixels, 100);
  ASSERT_TRUE(worst && best);
  EXPECT_LT(worst->size() * 2, best->size());
}

TEST(EncodeJpeg, RefusesSidesThatTheFormatLacks) {
  const Pixels pixels{.size = {65'501, 1}, .rgb = std::vector<uint8_t>(3 * 65'501)};
  const Result<Bytes> encoded = encode_jpeg(pixels, 90);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code, Code::invalid);
}

}  // namespace
}  // namespace tern
