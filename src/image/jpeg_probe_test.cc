#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "image/jpeg.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

enum class Order { little, big };

Bytes number(uint32_t value, size_t size, Order order) {
  Bytes bytes;
  for (size_t i = 0; i < size; ++i) {
    const size_t byte = order == Order::little ? i : size - 1 - i;
    bytes += static_cast<char>(value >> (8 * byte));
  }
  return bytes;
}

// An APP1 segment whose first table holds another tag, then the orientation.
Bytes exif(uint32_t orientation, Order order, uint32_t type = 3, uint32_t table = 8) {
  const auto n = [&](uint32_t value, size_t size) { return number(value, size, order); };
  Bytes tiff = order == Order::little ? "II" : "MM";
  tiff += n(42, 2) + n(table, 4) + n(2, 2);
  tiff += n(0x0100, 2) + n(4, 2) + n(1, 4) + n(640, 4);
  tiff += n(0x0112, 2) + n(type, 2) + n(1, 4);
  tiff += type == 3 ? n(orientation, 2) + n(0, 2) : n(orientation, 4);
  tiff += n(0, 4);
  const Bytes body = Bytes("Exif\0\0", 6) + tiff;
  return "\xFF\xE1" + number(static_cast<uint32_t>(body.size() + 2), 2, Order::big) + body;
}

Bytes with(const Bytes& encoded, const Bytes& segment) {
  return encoded.substr(0, 2) + segment + encoded.substr(2);
}

std::string refusal(BytesView encoded) {
  const Result<ImageInfo> info = probe_jpeg(encoded);
  return info ? "none" : info.error().to_string();
}

TEST(JpegProbe, SaysSizeAndCoding) {
  for (const bool is_progressive : {false, true}) {
    for (const bool is_arithmetic : {false, true}) {
      const Result<ImageInfo> info = probe_jpeg(make_jpeg({.width = 301,
                                                           .height = 17,
                                                           .luma_across = 2,
                                                           .is_progressive = is_progressive,
                                                           .is_arithmetic = is_arithmetic}));
      ASSERT_TRUE(info) << info.error().to_string();
      EXPECT_EQ(*info, (ImageInfo{.format = ImageFormat::jpeg,
                                  .size = {301, 17},
                                  .channels = 3,
                                  .orientation = 1,
                                  .is_progressive = is_progressive}));
    }
  }
}

TEST(JpegProbe, GreyAndCmykBecomeThreeChannels) {
  for (const auto& [components, colours] :
       {std::pair{1, JCS_GRAYSCALE}, std::pair{4, JCS_CMYK}, std::pair{4, JCS_YCCK}}) {
    const Result<ImageInfo> info = probe_jpeg(
        make_jpeg({.width = 9, .height = 8, .components = components, .colours = colours}));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->channels, 3);
    EXPECT_EQ(info->size, (ImageSize{9, 8}));
  }
}

TEST(JpegProbe, ReadsOrientationInBothByteOrders) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  for (const Order order : {Order::little, Order::big}) {
    for (const uint32_t type : {3U, 4U}) {
      for (uint32_t orientation = 1; orientation <= 8; ++orientation) {
        const Result<ImageInfo> info = probe_jpeg(with(encoded, exif(orientation, order, type)));
        ASSERT_TRUE(info);
        EXPECT_EQ(info->orientation, orientation);
        EXPECT_EQ(info->size, (orientation >= 5 ? ImageSize{20, 30} : ImageSize{30, 20}));
      }
    }
  }
}

TEST(JpegProbe, IgnoresDamagedExif) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  for (const Bytes& segment : {exif(0, Order::little), exif(9, Order::big), exif(6, Order::big, 2),
                               exif(6, Order::big, 7), exif(6, Order::little, 3, 0xFFFFFFFF),
                               exif(6, Order::little, 3, 34), exif(6, Order::little, 3, 40)}) {
    const Result<ImageInfo> info = probe_jpeg(with(encoded, segment));
    ASSERT_TRUE(info) << info.error().to_string();
    EXPECT_EQ(info->orientation, 1);
  }
}

TEST(JpegProbe, ExifCutAnywhereIsNoHarm) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  const Bytes whole = exif(6, Order::big);
  for (size_t size = 0; size <= whole.size() - 4; ++size) {
    const Bytes segment =
        "\xFF\xE1" + number(static_cast<uint32_t>(size + 2), 2, Order::big) + whole.substr(4, size);
    const Result<ImageInfo> info = probe_jpeg(with(encoded, segment));
    ASSERT_TRUE(info) << size;
    EXPECT_EQ(info->orientation, size + 4 >= whole.size() - 4 ? 6 : 1) << size;
  }
}

TEST(JpegProbe, TheFirstExifCounts) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  const Bytes xmp = Bytes("\xFF\xE1\0\x0Ahttp://x", 12);
  const Result<ImageInfo> info =
      probe_jpeg(with(encoded, xmp + exif(3, Order::little) + exif(8, Order::big)));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->orientation, 3);
}

TEST(JpegProbe, PassesOverBytesBetweenMarkers) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  const Result<ImageInfo> info =
      probe_jpeg(with(encoded, Bytes("spilt\xFF\0\xFF\xFF\xFF\x01\xFF\xD0", 13)));
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->size, (ImageSize{30, 20}));
}

TEST(JpegProbe, RefusesWhatIsNotDecoded) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  const size_t frame = encoded.find("\xFF\xC0");
  ASSERT_NE(frame, Bytes::npos);
  const auto changed = [&](size_t at, char value) {
    Bytes bytes = encoded;
    bytes[frame + at] = value;
    return bytes;
  };
  EXPECT_NE(refusal(changed(1, '\xC3')).find("lossless"), std::string::npos);
  EXPECT_NE(refusal(changed(1, '\xC7')).find("lossless"), std::string::npos);
  EXPECT_NE(refusal(changed(4, '\x0C')).find("12 bits"), std::string::npos);
  EXPECT_NE(refusal(changed(6, '\0')).find("30 x 0 pixels"), std::string::npos);
  EXPECT_NE(refusal(changed(8, '\0')).find("0 x 20 pixels"), std::string::npos);
  EXPECT_NE(refusal(changed(9, '\x02')).find("2 components"), std::string::npos);
  EXPECT_NE(refusal(changed(1, '\xFE')).find("no size"), std::string::npos);
}

TEST(JpegProbe, RefusesSizesBeyondTheLimits) {
  const Bytes encoded = make_jpeg({.width = 30, .height = 20});
  const size_t frame = encoded.find("\xFF\xC0");
  const auto sized = [&](uint32_t width, uint32_t height) {
    Bytes bytes = encoded;
    bytes.replace(frame + 5, 4, number(height, 2, Order::big) + number(width, 2, Order::big));
    return bytes;
  };
  EXPECT_EQ(refusal(sized(16'384, 16'384)), "none");
  EXPECT_EQ(refusal(sized(65'500, 1)), "none");
  EXPECT_NE(refusal(sized(16'385, 16'384)), "none");
  EXPECT_NE(refusal(sized(65'501, 1)), "none");
  EXPECT_NE(refusal(sized(1, 65'535)), "none");
}

TEST(JpegProbe, RefusesOtherThings) {
  EXPECT_EQ(refusal(""), "corrupt: JPEG: it does not begin as one");
  EXPECT_EQ(refusal("\x89PNG\r\n\x1A\n"), "corrupt: JPEG: it does not begin as one");
  EXPECT_EQ(refusal("\xFF\xD8"), "corrupt: JPEG: the data ends within the header");
  EXPECT_EQ(refusal("\xFF\xD8\xFF\xD9"), "corrupt: JPEG: no picture follows its header");
  EXPECT_EQ(refusal(BytesView("\xFF\xD8\xFF\xE0\0\x01", 6)),
            "corrupt: JPEG: a part of its header has a bad length");
}

}  // namespace
}  // namespace tern
