#include "image/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"
#include "image/jpeg.h"
#include "image/orientation.h"
#include "image/planes.h"
#include "image/png.h"
#include "image/resize.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

using testing::HasSubstr;

using Planes = std::vector<uint8_t>;

// With an EXIF segment behind the first marker: a TIFF of one table with one entry.
Bytes with_orientation(const Bytes& jpeg, uint8_t orientation) {
  constexpr BytesView kTiff("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  Bytes segment = Bytes("\0\0Exif\0\0", 8) + Bytes(kTiff) + static_cast<char>(orientation);
  segment.append(6, '\0');
  segment[1] = static_cast<char>(segment.size());
  return jpeg.substr(0, 2) + "\xFF\xE1" + segment + jpeg.substr(2);
}

ImageInfo info_of(BytesView encoded) {
  const Result<ImageInfo> info = probe_image(encoded);
  EXPECT_TRUE(info);
  return info.value_or({});
}

Bytes photo(int width, int height) {
  return make_jpeg({.width = width, .height = height, .luma_across = 2, .luma_down = 2});
}

Pixels whole(BytesView encoded, const ImageInfo& info) {
  Pixels pixels;
  const Status status = ImageDecoder().decode_rgb(encoded, info, pixels);
  EXPECT_TRUE(status) << status.error().to_string();
  return pixels;
}

Planes decoded(BytesView encoded, const ImageInfo& info, const View& view) {
  Planes out(static_cast<size_t>(info.channels * view.out_width * view.out_height), 77);
  const Status status = ImageDecoder().decode(encoded, info, view, out);
  EXPECT_TRUE(status) << status.error().to_string();
  return out;
}

Planes resized(const Pixels& pixels, const View& view) {
  Planes out(static_cast<size_t>(3 * view.out_width * view.out_height));
  Resizer().resize(pixels, view, out);
  return out;
}

// Parts in the middle, at each edge, between pixels, of one pixel, and all of it.
std::vector<View> views_of(ImageSize size) {
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  std::vector<View> views;
  for (const bool mirror : {false, true}) {
    views.push_back({0, 0, width, height, 16, 24, mirror});
    views.push_back({0, 0, width, height, size.width, size.height, mirror});
    views.push_back({10, 9, 21, 17, 16, 12, mirror});
    views.push_back({10, 9, 21, 17, 21, 17, mirror});
    views.push_back({0, height - 13, 14, 13, 20, 20, mirror});
    views.push_back({width - 11, 0, 11, 12, 20, 20, mirror});
    views.push_back({3.75, 5.3, 20.6, 14.9, 13, 17, mirror});
    views.push_back({width - 9.4, height - 7.3, 9.4, 7.3, 8, 5, mirror});
    views.push_back({width - 1, height - 1, 1, 1, 3, 2, mirror});
  }
  return views;
}

TEST(ImageDecoder, APartIsThatOfTheWholeImageForEveryOrientation) {
  const Bytes stored = photo(61, 43);
  for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
    const Bytes turned = with_orientation(stored, orientation);
    const ImageInfo info = info_of(turned);
    ASSERT_EQ(info.orientation, orientation);
    ASSERT_EQ(info.size, orientation < 5 ? (ImageSize{61, 43}) : (ImageSize{43, 61}));
    const Pixels pixels = whole(turned, info);
    for (const View& view : views_of(info.size)) {
      ASSERT_EQ(decoded(turned, info, view), resized(pixels, view))
          << int{orientation} << " at " << view.left << ", " << view.top;
    }
  }
}

TEST(ImageDecoder, TurnsAsExifSays) {
  // Where the stored top left pixel, and the one to its right, are to be seen. Exif 2.32, 4.6.4 A:
  // "the 0th row is at the visual top, the 0th column on the left" and so on.
  const Pixels stored{.size = {3, 2},
                      .rgb = {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6}};
  const std::vector<std::vector<int>> upright = {
      {1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
      {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
    Pixels turned;
    turn_upright(turn_of(orientation), stored, turned);
    std::vector<int> reds;
    for (size_t i = 0; i < turned.rgb.size(); i += 3) reds.push_back(turned.rgb[i]);
    EXPECT_EQ(reds, upright[orientation - 1U]) << int{orientation};
    EXPECT_EQ(turned.size.width, orientation < 5 ? 3 : 2);
  }
}

TEST(ImageDecoder, WholeIsTheImageInPlanes) {
  for (const uint8_t orientation : {uint8_t{1}, uint8_t{6}}) {
    const Bytes stored = with_orientation(photo(64, 40), orientation);
    const ImageInfo info = info_of(stored);
    const Pixels pixels = whole(stored, info);
    Planes out(pixels.rgb.size());
    ASSERT_TRUE(ImageDecoder().decode_whole(stored, info, out));
    Planes planes(pixels.rgb.size());
    const auto count = static_cast<size_t>(info.size.pixels());
    split_rgb(pixels.rgb.data(), count, planes.data(), count);
    EXPECT_EQ(out, planes);
  }
}

TEST(ImageDecoder, ReducesOnlyAsFarAsThePartStaysAsLargeAsTheResult) {
  const Bytes stored = photo(203, 150);
  const ImageInfo info = info_of(stored);
  for (const auto& [side, reduce] : std::vector<std::pair<int32_t, int>>{
           {101, 1}, {100, 2}, {51, 2}, {50, 4}, {26, 4}, {25, 8}, {3, 8}}) {
    const View part{1, 1, 201, 149, side, side / 2, false, /*may_reduce=*/true};
    const Pixels small = decode_plainly(stored, reduce);
    View same = part;
    same.left /= reduce;
    same.top /= reduce;
    same.width /= reduce;
    same.height /= reduce;
    EXPECT_EQ(decoded(stored, info, part), resized(small, same)) << side;
  }
}

TEST(ImageDecoder, AReducedPartIsNearTheOneDecodedWholeForEveryOrientation) {
  // A smooth picture of odd size: a shift by a part of a reduced pixel would be seen.
  Pixels ramp{.size = {253, 187}};
  for (int y = 0; y < 187; ++y) {
    for (int x = 0; x < 253; ++x) {
      ramp.rgb.insert(ramp.rgb.end(), {static_cast<uint8_t>(x), static_cast<uint8_t>(y),
                                       static_cast<uint8_t>((x + y) / 2)});
    }
  }
  const Result<Bytes> jpeg = encode_jpeg(ramp, 95);
  ASSERT_TRUE(jpeg);
  for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
    const Bytes turned = with_orientation(*jpeg, orientation);
    const ImageInfo info = info_of(turned);
    View view{20, 30, 130, 140, 16, 17};
    const Planes exact = decoded(turned, info, view);
    view.may_reduce = true;
    const Planes reduced = decoded(turned, info, view);
    double sum = 0;
    for (size_t i = 0; i < exact.size(); ++i) sum += int{exact[i]} - int{reduced[i]};
    EXPECT_LT(std::abs(sum) / static_cast<double>(exact.size()), 0.6) << int{orientation};
  }
}

TEST(ImageDecoder, GreyBecomesThreeEqualChannels) {
  const Bytes grey =
      make_jpeg({.width = 40, .height = 30, .components = 1, .colours = JCS_GRAYSCALE});
  const ImageInfo info = info_of(grey);
  EXPECT_EQ(info.channels, 3);
  for (const View& view : views_of(info.size)) {
    const Planes out = decoded(grey, info, view);
    const auto plane = static_cast<std::ptrdiff_t>(out.size() / 3);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + plane, out.begin() + plane));
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + plane, out.begin() + 2 * plane));
    EXPECT_EQ(out, resized(whole(grey, info), view));
  }
}

TEST(ImageDecoder, CmykBecomesRgb) {
  for (const J_COLOR_SPACE colours : {JCS_CMYK, JCS_YCCK}) {
    const Bytes cmyk = make_jpeg({.width = 50, .height = 41, .components = 4, .colours = colours});
    const ImageInfo info = info_of(cmyk);
    EXPECT_EQ(info.channels, 3);
    for (const View& view : views_of(info.size)) {
      EXPECT_EQ(decoded(cmyk, info, view), resized(whole(cmyk, info), view));
    }
  }
}

TEST(ImageDecoder, PngIsReadWholeAndThenViewed) {
  Pixels pixels{.size = {44, 35}, .rgb = Planes(size_t{44} * 35 * 3)};
  for (size_t i = 0; i < pixels.rgb.size(); ++i) {
    pixels.rgb[i] = test_sample(static_cast<int>(i / 3 % 44), static_cast<int>(i / 132),
                                static_cast<int>(i % 3));
  }
  const Result<Bytes> png = write_png(pixels);
  ASSERT_TRUE(png);
  const ImageInfo info = info_of(*png);
  EXPECT_EQ(whole(*png, info).rgb, pixels.rgb);
  for (const View& view : views_of(info.size)) {
    EXPECT_EQ(decoded(*png, info, view), resized(pixels, view));
  }
}

// Raw pixels of noise, and the same as rows of RGB.
struct Raw {
  explicit Raw(uint8_t channels) : info{.size = {37, 41}, .channels = channels} {
    const auto count = static_cast<size_t>(info.size.pixels());
    Random random(1, Stream::fingerprint, channels);
    for (size_t i = 0; i < channels * count; ++i) bytes += static_cast<char>(random.below(256));
    pixels.size = info.size;
    for (size_t i = 0; i < 3 * count; ++i) {
      pixels.rgb.push_back(static_cast<uint8_t>(bytes[i % 3 % channels * count + i / 3]));
    }
  }
  ImageInfo info;
  Bytes bytes;
  Pixels pixels;
};

TEST(ImageDecoder, RawIsCutMirroredAndResized) {
  for (const uint8_t channels : {uint8_t{1}, uint8_t{3}}) {
    const Raw raw(channels);
    EXPECT_EQ(whole(raw.bytes, raw.info).rgb, raw.pixels.rgb);
    for (const View& view : views_of(raw.info.size)) {
      Planes expected = resized(raw.pixels, view);
      expected.resize(static_cast<size_t>(channels * view.out_width * view.out_height));
      EXPECT_EQ(decoded(raw.bytes, raw.info, view), expected) << int{channels};
    }
  }
}

TEST(ImageDecoder, OneDecoderDecodesManyImagesOneAfterTheOther) {
  ImageDecoder decoder;
  const Raw raw(3);
  for (const int width : {90, 17, 64, 200, 33}) {
    const Bytes jpeg = with_orientation(photo(width, 50), static_cast<uint8_t>(1 + width % 8));
    for (const Bytes* stored : {&jpeg, &raw.bytes}) {
      const ImageInfo info = stored == &jpeg ? info_of(jpeg) : raw.info;
      for (const View& view : {View{1, 2, 13.5, 14, 9, 8}, View{2, 2, 12, 12, 12, 12, true}}) {
        Planes out(static_cast<size_t>(3 * view.out_width * view.out_height));
        ASSERT_TRUE(decoder.decode(*stored, info, view, out));
        ASSERT_EQ(out, decoded(*stored, info, view));
      }
    }
  }
}

Status decode_all(BytesView stored, const ImageInfo& info) {
  Planes out(static_cast<size_t>(info.channels * info.size.pixels()));
  return ImageDecoder().decode_whole(stored, info, out);
}

TEST(ImageDecoder, TheBuffersOfAHugeImageAreNotKept) {
  ImageDecoder decoder;
  Pixels pixels;
  Planes small(16 * 12 * 3);
  const View view{.width = 40, .height = 32, .out_width = 16, .out_height = 12};
  const Bytes jpeg = with_orientation(photo(40, 32), 3);
  ASSERT_TRUE(decoder.decode(jpeg, info_of(jpeg), view, small));
  const size_t kept = decoder.kept_bytes();
  EXPECT_EQ(kept, 2u * 40 * 32 * 3);
  const Bytes huge = with_orientation(photo(6000, 4000), 3);
  ASSERT_GT(size_t{6000} * 4000 * 3, ImageDecoder::kKeptBytesMax);
  ASSERT_TRUE(decoder.decode_rgb(huge, info_of(huge), pixels));
  EXPECT_LE(decoder.kept_bytes(), kept);
  const View all{.width = 6000, .height = 4000, .out_width = 16, .out_height = 12};
  ASSERT_TRUE(decoder.decode(huge, info_of(huge), all, small));
  EXPECT_EQ(decoder.kept_bytes(), 0u);
  // Also where it cannot be decoded.
  EXPECT_FALSE(
      decoder.decode(BytesView(huge).substr(0, huge.size() / 2), info_of(huge), all, small));
  EXPECT_EQ(decoder.kept_bytes(), 0u);
  ASSERT_TRUE(decoder.decode(jpeg, info_of(jpeg), view, small));
  EXPECT_EQ(decoder.kept_bytes(), kept);
}

TEST(ImageDecoder, InfoThatLiesIsCorrupt) {
  const Bytes jpeg = with_orientation(photo(40, 32), 6);
  const ImageInfo truth = info_of(jpeg);
  ASSERT_EQ(truth.orientation, 6);
  ASSERT_TRUE(decode_all(jpeg, truth));
  std::vector<ImageInfo> lies(5, truth);
  lies[0].size.width -= 1;
  lies[1].size.height += 8;
  lies[2].orientation = 5;
  lies[3].format = ImageFormat::png;
  lies[4].format = ImageFormat::raw;
  for (const ImageInfo& lie : lies) {
    const Status status = decode_all(jpeg, lie);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::corrupt);
    EXPECT_THAT(status.error().message, HasSubstr("import the data again"));
    Pixels pixels;
    EXPECT_FALSE(ImageDecoder().decode_rgb(jpeg, lie, pixels));
  }
}

TEST(ImageDecoder, RawOfTheWrongLengthIsCorrupt) {
  const Raw raw(3);
  for (const Bytes& bytes : {raw.bytes + "x", raw.bytes.substr(1), Bytes()}) {
    const Status status = decode_all(bytes, raw.info);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::corrupt);
  }
  ImageInfo two = raw.info;
  two.channels = 2;
  EXPECT_FALSE(decode_all(raw.bytes, two));
}

TEST(ImageDecoder, ATruncatedFileIsCorruptWhereverItEnds) {
  const Bytes jpeg = photo(40, 32);
  const Result<Bytes> png = write_png(whole(jpeg, info_of(jpeg)));
  ASSERT_TRUE(png);
  for (const Bytes& file : {jpeg, *png}) {
    const ImageInfo info = info_of(file);
    // Without JPEG's last two bytes, the end marker, libjpeg may have all it needs.
    for (size_t size = 0; size + 2 < file.size(); size += 7) {
      const Status status = decode_all(BytesView(file).substr(0, size), info);
      ASSERT_FALSE(status) << size << " of " << file.size();
      ASSERT_EQ(status.error().code, Code::corrupt);
    }
  }
}

TEST(ImageDecoder, DamageNeverLeavesTheBuffers) {
  const Bytes jpeg = with_orientation(photo(40, 32), 7);
  const ImageInfo info = info_of(jpeg);
  Random random(9, Stream::fingerprint, 0);
  for (int i = 0; i < 300; ++i) {
    Bytes damaged = jpeg;
    damaged[random.below(static_cast<uint32_t>(jpeg.size()))] =
        static_cast<char>(random.below(256));
    const Status status = decode_all(damaged, info);
    if (!status) {
      EXPECT_EQ(status.error().code, Code::corrupt);
    }
  }
}

}  // namespace
}  // namespace tern
