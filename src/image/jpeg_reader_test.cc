#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "image/jpeg.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

std::string text(const Box& box) {
  return "box " + std::to_string(box.left) + "," + std::to_string(box.top) + " " +
         std::to_string(box.width) + "x" + std::to_string(box.height);
}

// Cuts `whole` by hand and compares.
void expect_box(JpegReader& reader, BytesView encoded, const Pixels& whole, Box box, int reduce) {
  Pixels pixels;
  const Status status = reader.read(encoded, box, reduce, pixels);
  ASSERT_TRUE(status) << text(box) << ": " << status.error().to_string();
  ASSERT_EQ(pixels.size, (ImageSize{box.width, box.height}));
  ASSERT_TRUE(pixels.rgb == cut(whole, box)) << text(box) << ", reduced by " << reduce;
}

// Rows and columns do not depend on each other, so each range of either with a few of the other.
void expect_every_box(JpegReader& reader, BytesView encoded, int reduce) {
  const Pixels whole = decode_plainly(encoded, reduce);
  const int width = whole.size.width;
  const int height = whole.size.height;
  for (int from = 0; from < width; ++from) {
    for (int to = from + 1; to <= width; ++to) {
      const int top = (from * 7 + to) % height;
      const int rows = std::min(height - top, 1 + (from + to) % 5);
      expect_box(reader, encoded, whole, {from, top, to - from, rows}, reduce);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (int from = 0; from < height; ++from) {
    for (int to = from + 1; to <= height; ++to) {
      const int left = (from * 5 + to) % width;
      const int columns = std::min(width - left, 1 + (from + to) % 7);
      expect_box(reader, encoded, whole, {left, from, columns, to - from}, reduce);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class JpegBoxes : public testing::TestWithParam<std::pair<const char*, JpegKind>> {};

TEST_P(JpegBoxes, AreThoseOfTheWholeImage) {
  JpegReader reader;
  JpegKind kind = GetParam().second;
  for (const ImageSize size : {ImageSize{61, 35}, ImageSize{32, 33}}) {
    kind.width = size.width;
    kind.height = size.height;
    const Bytes encoded = make_jpeg(kind);
    for (const int reduce : {1, 2, 4, 8}) {
      expect_every_box(reader, encoded, reduce);
      if (HasFatalFailure()) FAIL() << size.width << " x " << size.height << " by " << reduce;
    }
  }
}

TEST_P(JpegBoxes, OfTheSmallestImagesToo) {
  JpegReader reader;
  JpegKind kind = GetParam().second;
  for (kind.width = 1; kind.width <= 18; ++kind.width) {
    for (kind.height = 1; kind.height <= 18; kind.height += kind.width % 2 + 1) {
      const Bytes encoded = make_jpeg(kind);
      for (const int reduce : {1, 2, 4, 8}) {
        const Pixels whole = decode_plainly(encoded, reduce);
        const int right = whole.size.width - 1;
        const int bottom = whole.size.height - 1;
        for (const Box box :
             {Box{0, 0, right + 1, bottom + 1}, Box{0, 0, 1, 1}, Box{right, bottom, 1, 1},
              Box{right, 0, 1, bottom + 1}, Box{right / 2, bottom / 2, 1, 1}}) {
          expect_box(reader, encoded, whole, box, reduce);
          if (HasFatalFailure()) FAIL() << kind.width << " x " << kind.height;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, JpegBoxes,
    testing::ValuesIn(std::vector<std::pair<const char*, JpegKind>>{
        {"Yuv444", {}},
        {"Yuv422", {.luma_across = 2}},
        {"Yuv440", {.luma_down = 2}},
        {"Yuv420", {.luma_across = 2, .luma_down = 2}},
        {"Yuv411", {.luma_across = 4}},
        {"Yuv410", {.luma_across = 4, .luma_down = 2}},
        {"Yuv441", {.luma_down = 4}},
        {"Yuv2By4", {.luma_across = 2, .luma_down = 4}},
        {"Rgb", {.colours = JCS_RGB}},
        {"Grey", {.components = 1, .colours = JCS_GRAYSCALE}},
        {"GreySampledTwice",
         {.components = 1, .colours = JCS_GRAYSCALE, .luma_across = 2, .luma_down = 2}},
        {"Yuv420Progressive", {.luma_across = 2, .luma_down = 2, .is_progressive = true}},
        {"Yuv422Progressive", {.luma_across = 2, .is_progressive = true}},
        {"Yuv444Progressive", {.is_progressive = true}},
        {"Yuv411Progressive", {.luma_across = 4, .is_progressive = true}},
        {"GreyProgressive", {.components = 1, .colours = JCS_GRAYSCALE, .is_progressive = true}},
        {"Unfinished",
         {.luma_across = 2, .luma_down = 2, .is_progressive = true, .is_incomplete = true}},
        {"Unfinished444", {.is_progressive = true, .is_incomplete = true}},
        {"AScanEach", {.luma_across = 2, .luma_down = 2, .has_a_scan_each = true}},
        {"Restarts", {.luma_across = 2, .luma_down = 2, .restart_mcus = 3}},
        {"Optimised", {.luma_across = 2, .luma_down = 2, .is_optimised = true}},
        {"Finest", {.is_optimised = true, .quality = 100}},
        {"Coarsest", {.luma_across = 2, .is_optimised = true, .quality = 1}},
        {"Arithmetic", {.luma_across = 2, .luma_down = 2, .is_arithmetic = true}},
    }),
    [](const auto& test) { return std::string(test.param.first); });

// Each pixel computed apart, in floating point.
void expect_cmyk(const JpegKind& kind, bool is_inverted) {
  JpegReader reader;
  Bytes encoded = make_jpeg(kind);
  if (!is_inverted) {
    const size_t adobe = encoded.find("\xFF\xEE");
    ASSERT_NE(adobe, Bytes::npos);
    encoded.erase(adobe, 16);
  }
  const Pixels plain = decode_plainly(encoded);
  const Box box{5, 7, 20, 18};
  Pixels pixels;
  ASSERT_TRUE(reader.read(encoded, box, 1, pixels));
  for (int y = 0; y < box.height; ++y) {
    for (int x = 0; x < box.width; ++x) {
      const size_t at = static_cast<size_t>((y + box.top) * kind.width + x + box.left) * 4;
      const auto light = [&](size_t c) {
        const int stored = plain.rgb[at + c];
        return (is_inverted ? stored : 255 - stored) / 255.0;
      };
      for (size_t c = 0; c < 3; ++c) {
        const int got = pixels.rgb[static_cast<size_t>(y * box.width + x) * 3 + c];
        ASSERT_NEAR(got, 255 * light(c) * light(3), 1.01) << x << "," << y;
      }
    }
  }
}

TEST(JpegReader, MakesRgbOfCmyk) {
  const JpegKind cmyk{.width = 40, .height = 30, .components = 4, .colours = JCS_CMYK};
  expect_cmyk(cmyk, /*is_inverted=*/true);
  expect_cmyk(cmyk, /*is_inverted=*/false);
  JpegKind ycck = cmyk;
  ycck.colours = JCS_YCCK;
  ycck.luma_across = ycck.luma_down = 2;
  expect_cmyk(ycck, /*is_inverted=*/true);
}

TEST(JpegReader, CmykGivesPillowsValues) {
  // C, M, Y, K as Adobe stores them (light, not ink), with what Pillow's convert("RGB") makes.
  JpegKind kind{.width = 8, .height = 8, .components = 4, .colours = JCS_CMYK, .quality = 100};
  const Bytes encoded = make_jpeg(kind);
  const Pixels plain = decode_plainly(encoded);
  JpegReader reader;
  Pixels pixels;
  ASSERT_TRUE(reader.read(encoded, {0, 0, 8, 8}, 1, pixels));
  for (size_t i = 0; i < 64; ++i) {
    const int k = plain.rgb[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int product = (255 - plain.rgb[4 * i + c]) * k + 128;
      EXPECT_EQ(pixels.rgb[3 * i + c], k - (((product >> 8) + product) >> 8));
    }
  }
}

TEST(JpegReader, BoxesOfCmykAreThoseOfTheWholeImage) {
  for (const bool is_progressive : {false, true}) {
    for (const J_COLOR_SPACE colours : {JCS_CMYK, JCS_YCCK}) {
      const Bytes encoded = make_jpeg({.width = 45,
                                       .height = 37,
                                       .components = 4,
                                       .colours = colours,
                                       .luma_across = 2,
                                       .luma_down = 2,
                                       .is_progressive = is_progressive});
      JpegReader reader;
      Pixels whole;
      ASSERT_TRUE(reader.read(encoded, {0, 0, 45, 37}, 1, whole));
      for (int left = 0; left < 45; ++left) {
        for (int top = 0; top < 37; ++top) {
          const Box box{left, top, std::min(45 - left, 1 + (left + top) % 20),
                        std::min(37 - top, 1 + (left * top) % 20)};
          expect_box(reader, encoded, whole, box, 1);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(JpegReader, AnImageWithoutItsTablesDoesNotBorrowThoseOfTheLast) {
  const Bytes whole = make_jpeg({.width = 40, .height = 30, .quality = 50});
  Bytes bare = whole;
  for (size_t at; (at = bare.find("\xFF\xDB")) != Bytes::npos;) {
    bare.erase(at, 2 + 67);  // two bytes of marker, two of length, one of number, 64 values
  }
  JpegReader reader;
  Pixels pixels;
  ASSERT_TRUE(reader.read(whole, {0, 0, 40, 30}, 1, pixels));
  const Status status = reader.read(bare, {0, 0, 40, 30}, 1, pixels);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().to_string(), "corrupt: JPEG: it has no quantisation table");
}

TEST(JpegReader, MotionJpegWithoutHuffmanTablesUsesTheStandardOnes) {
  const Bytes whole = make_jpeg({.width = 40, .height = 30});  // libjpeg writes the standard ones
  Bytes bare = whole;
  for (size_t at; (at = bare.find("\xFF\xC4")) != Bytes::npos;) {
    bare.erase(at, 2 + static_cast<size_t>(static_cast<uint8_t>(bare[at + 2]) << 8U |
                                           static_cast<uint8_t>(bare[at + 3])));
  }
  ASSERT_LT(bare.size(), whole.size() - 400);
  // Other tables first.
  const Bytes other = make_jpeg({.width = 40, .height = 30, .is_progressive = true});
  JpegReader reader;
  Pixels pixels;
  ASSERT_TRUE(reader.read(other, {0, 0, 40, 30}, 1, pixels));
  expect_box(reader, bare, decode_plainly(whole), {3, 4, 30, 20}, 1);
}

TEST(JpegReader, ATableThatIsNotThereHasNoCodes) {
  Bytes encoded = make_jpeg({.width = 40, .height = 30, .components = 1, .colours = JCS_GRAYSCALE});
  const size_t scan = encoded.find("\xFF\xDA");
  encoded[scan + 6] = '\x22';  // the numbers of its tables
  JpegReader reader;
  Pixels pixels;
  for (int i = 0; i < 2; ++i) {
    const Status status = reader.read(encoded, {0, 0, 40, 30}, 1, pixels);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().to_string(), "corrupt: JPEG: the data of the picture has a bad code");
  }
}

TEST(JpegReader, ABlockThatOverrunsIsDamage) {
  // The second table's codes in place of the first's: soon a run leads beyond the 64 values.
  Bytes encoded = make_jpeg({.width = 40, .height = 30});
  encoded[encoded.find("\xFF\xDA") + 6] = '\x01';
  JpegReader reader;
  Pixels pixels;
  const Status status = reader.read(encoded, {0, 0, 40, 30}, 1, pixels);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::corrupt);
}

TEST(JpegReader, ABoxOutsideTheImageIsDamageOfTheBytes) {
  const Bytes encoded = make_jpeg({.width = 40, .height = 30});
  JpegReader reader;
  Pixels pixels;
  for (const Box box : {Box{0, 0, 41, 30}, Box{0, 0, 40, 31}, Box{40, 0, 1, 1}, Box{0, 30, 1, 1},
                        Box{INT32_MAX, 0, INT32_MAX, 1}}) {
    const Status status = reader.read(encoded, box, 1, pixels);
    ASSERT_FALSE(status) << text(box);
    EXPECT_EQ(status.error().code, Code::corrupt);
  }
  EXPECT_FALSE(reader.read(encoded, {0, 0, 21, 15}, 2, pixels));
  EXPECT_TRUE(reader.read(encoded, {0, 0, 20, 15}, 2, pixels));
}

TEST(JpegReader, AClaimThatTheBytesCannotHoldTakesNoMemory) {
  Bytes encoded = make_jpeg({.width = 16, .height = 16, .is_progressive = true});
  const size_t frame = encoded.find("\xFF\xC2");
  ASSERT_NE(frame, Bytes::npos);
  for (const size_t at : {frame + 5, frame + 7}) encoded[at] = '\x3F';  // 16,144 on each side
  JpegReader reader;
  Pixels pixels;
  const Status status = reader.read(encoded, {0, 0, 16'000, 16'000}, 1, pixels);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("it claims"), std::string::npos) << status.error().message;
  EXPECT_EQ(pixels.rgb.capacity(), 0U);
}

TEST(JpegReader, MoreThanFiveHundredScansAreRefused) {
  const Bytes encoded = make_jpeg({.width = 64, .height = 64, .is_progressive = true});
  // The last scan again and again.
  const size_t scan = encoded.rfind("\xFF\xDA");
  const size_t end = encoded.rfind("\xFF\xD9");
  Bytes many = encoded.substr(0, end);
  for (int i = 0; i < 600; ++i) many += encoded.substr(scan, end - scan);
  many += "\xFF\xD9";
  JpegReader reader;
  Pixels pixels;
  const Status status = reader.read(many, {0, 0, 64, 64}, 1, pixels);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("500 scans"), std::string::npos) << status.error().message;
  EXPECT_FALSE(jpeg_to_baseline(many));
}

TEST(JpegReader, DamageBelowTheBoxIsNotSeenAndAboveItIs) {
  Bytes encoded = make_jpeg({.width = 200, .height = 200, .luma_across = 2, .luma_down = 2});
  const Pixels whole = decode_plainly(encoded);
  encoded.resize(encoded.size() / 2);
  JpegReader reader;
  expect_box(reader, encoded, whole, {20, 10, 100, 40}, 1);
  Pixels pixels;
  const Status status = reader.read(encoded, {20, 150, 100, 40}, 1, pixels);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().to_string(), "corrupt: JPEG: the data ends early");
}

TEST(JpegReader, AMissingRestartMarkerIsDamage) {
  const Bytes encoded = make_jpeg({.width = 64, .height = 64, .restart_mcus = 4});
  JpegReader reader;
  Pixels pixels;
  for (const char* marker : {"\xFF\xD0", "\xFF\xD3", "\xFF\xD7"}) {
    Bytes damaged = encoded;
    const size_t at = damaged.find(marker, damaged.find("\xFF\xDA"));
    ASSERT_NE(at, Bytes::npos);
    damaged.erase(at, 2);
    const Status status = reader.read(damaged, {0, 0, 64, 64}, 1, pixels);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().to_string(), "corrupt: JPEG: a restart marker is missing");
  }
}

TEST(JpegReader, BytesBeforeARestartMarkerAndFillBeforeAMarkerPass) {
  Bytes encoded = make_jpeg({.width = 64, .height = 64, .restart_mcus = 4});
  const Pixels whole = decode_plainly(encoded);
  const size_t marker = encoded.find("\xFF\xD2", encoded.find("\xFF\xDA"));
  ASSERT_NE(marker, Bytes::npos);
  encoded.insert(marker, "abc\xFF\xFF");
  JpegReader reader;
  expect_box(reader, encoded, whole, {0, 0, 64, 64}, 1);
}

TEST(JpegReader, BytesBetweenMarkersPass) {
  const Bytes encoded = make_jpeg({.width = 40, .height = 30});
  const size_t tables = encoded.find("\xFF\xC4");
  const Bytes odd = encoded.substr(0, tables) + "spilt" + encoded.substr(tables);
  JpegReader reader;
  expect_box(reader, odd, decode_plainly(encoded), {1, 2, 30, 20}, 1);
}

class JpegDamage : public testing::TestWithParam<bool> {};

TEST_P(JpegDamage, EveryTruncationIsCorrupt) {
  const Bytes encoded = make_jpeg(
      {.width = 24, .height = 20, .luma_across = 2, .luma_down = 2, .is_progressive = GetParam()});
  JpegReader reader;
  Pixels pixels;
  for (size_t size = 0; size < encoded.size() - 2; ++size) {
    // Exactly as long, so that a tool that checks memory sees a read beyond.
    const std::vector<char> cut_off(encoded.begin(), encoded.begin() + static_cast<long>(size));
    const BytesView bytes(cut_off.data(), size);
    const Status status = reader.read(bytes, {0, 0, 24, 20}, 1, pixels);
    ASSERT_FALSE(status) << size;
    ASSERT_EQ(status.error().code, Code::corrupt) << size;
    ASSERT_FALSE(jpeg_to_baseline(bytes)) << size;
    probe_jpeg(bytes).has_value();
  }
  ASSERT_TRUE(reader.read(encoded, {0, 0, 24, 20}, 1, pixels));
}

TEST_P(JpegDamage, NoFlippedByteCrashes) {
  const Bytes encoded = make_jpeg({.width = 24,
                                   .height = 20,
                                   .luma_across = 2,
                                   .luma_down = 2,
                                   .is_progressive = GetParam(),
                                   .restart_mcus = 2});
  JpegReader reader;
  const Pixels whole = decode_plainly(encoded);
  Pixels pixels;
  int refused = 0;
  for (size_t at = 0; at < encoded.size(); ++at) {
    for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
      std::vector<char> damaged(encoded.begin(), encoded.end());
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const BytesView bytes(damaged.data(), damaged.size());
      const Result<ImageInfo> info = probe_jpeg(bytes);
      if (info) {
        const Box all{0, 0, info->size.width, info->size.height};
        refused += reader.read(bytes, all, 1, pixels) ? 0 : 1;
      }
      const Status status = reader.read(bytes, {3, 5, 20, 11}, 1, pixels);
      ASSERT_TRUE(status || status.error().code == Code::corrupt) << at;
      reader.read(bytes, {1, 2, 4, 3}, 4, pixels).permit_unchecked_error();
      if (const Result<Bytes> baseline = jpeg_to_baseline(bytes)) {
        reader.read(*baseline, {3, 5, 20, 11}, 1, pixels).permit_unchecked_error();
      }
      // Nothing of it is left behind.
      if (at % 16 == 0) expect_box(reader, encoded, whole, {3, 5, 20, 11}, 1);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Codings, JpegDamage, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Progressive" : "Baseline");
});

}  // namespace
}  // namespace tern
