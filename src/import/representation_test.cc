#include "import/representation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/jpeg.h"
#include "image/png.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

using testing::HasSubstr;
using Kind = Representation::Kind;

constexpr JpegKind kPhoto{.width = 90, .height = 60, .luma_across = 2, .luma_down = 2};

// The same image, to be turned as EXIF's orientation says.
Bytes with_orientation(const Bytes& jpeg, char orientation) {
  Bytes exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 24);
  exif += orientation;
  exif += Bytes(7, '\0');
  Bytes segment("\xFF\xE1\0", 3);
  segment += static_cast<char>(exif.size() + 2);
  return jpeg.substr(0, 2) + segment + exif + jpeg.substr(2);
}

Bytes progressive_jpeg() {
  JpegKind kind = kPhoto;
  kind.is_progressive = true;
  return make_jpeg(kind);
}

class RepresentationTest : public testing::Test {
 protected:
  // What `text` makes of the bytes; info_ is then the result's.
  Result<Bytes> make(const std::string& text, const Bytes& bytes) {
    info_ = *probe_image(bytes);
    return represent(*parse_representation(text), bytes, info_, decoder_);
  }

  ImageInfo info_;
  ImageDecoder decoder_;
};

TEST(Representation, NamesAreReadAndWritten) {
  for (const std::string name : {"orig", "base", "short:256:q90", "short:1:q1", "raw"}) {
    const Result<Representation> parsed = parse_representation(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(parsed->to_string(), name);
  }
  EXPECT_EQ(parse_representation("short:160")->to_string(), "short:160:q90");
}

TEST(Representation, OtherNamesAreRefusedWithAListOfThose) {
  for (const std::string name :
       {"", "Orig", "short", "short:", "short:0", "short:-5", "short:256:", "short:256:90",
        "short:256:q", "short:256:q0", "short:256:q101", "short:65536", "short:256:q90:x",
        "short: 256", "short:99999999999", "short:010", "raw "}) {
    const Result<Representation> parsed = parse_representation(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, Code::invalid);
    EXPECT_THAT(parsed.error().message, HasSubstr("short:256:q90"));
  }
}

TEST_F(RepresentationTest, OrigKeepsEveryByte) {
  const Bytes jpeg = with_orientation(progressive_jpeg(), 6);
  EXPECT_EQ(*make("orig", jpeg), jpeg);
  EXPECT_EQ(info_, *probe_image(jpeg));
}

TEST_F(RepresentationTest, BaseChangesTheCodingOfProgressiveImagesAndNoPixel) {
  const Bytes jpeg = progressive_jpeg();
  const Result<Bytes> made = make("base", jpeg);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_NE(*made, jpeg);
  EXPECT_FALSE(info_.is_progressive);
  EXPECT_EQ(info_, *probe_image(*made));
  EXPECT_EQ(decode_plainly(*made).rgb, decode_plainly(jpeg).rgb);
}

TEST_F(RepresentationTest, BaseKeepsTheOrientation) {
  ASSERT_TRUE(make("base", with_orientation(progressive_jpeg(), 6)));
  EXPECT_EQ(info_.orientation, 6);
  EXPECT_EQ(info_.size, (ImageSize{60, 90}));
}

TEST_F(RepresentationTest, BaseLeavesEverythingElseAsItIs) {
  const Bytes jpeg = make_jpeg(kPhoto);
  EXPECT_EQ(*make("base", jpeg), jpeg);
  const Bytes png = *write_png(decode_plainly(jpeg));
  EXPECT_EQ(*make("base", png), png);
}

TEST_F(RepresentationTest, ShortSideIsWhatWasAskedFor) {
  const struct {
    int width, height;
    ImageSize expected;
  } cases[] = {{90, 60, {36, 24}}, {60, 90, {24, 36}}, {50, 50, {24, 24}}, {101, 33, {73, 24}}};
  for (const auto& one : cases) {
    const Result<Bytes> made =
        make("short:24:q80", make_jpeg({.width = one.width, .height = one.height}));
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(info_.size, one.expected);
    EXPECT_EQ(info_, *probe_image(*made));
    EXPECT_EQ(info_.format, ImageFormat::jpeg);
  }
}

TEST_F(RepresentationTest, ShortNeverEnlarges) {
  ASSERT_TRUE(make("short:61:q90", make_jpeg(kPhoto)));
  EXPECT_EQ(info_.size, (ImageSize{90, 60}));
}

TEST_F(RepresentationTest, ShortIsUprightAndLooksTheSame) {
  // Left half dark, right half bright, as stored; turned by a quarter, the dark half is above.
  Pixels pixels{.size = {80, 40}, .rgb = std::vector<uint8_t>(80 * 40 * 3, 20)};
  for (size_t i = 0; i < pixels.rgb.size(); ++i) {
    if (i / 3 % 80 >= 40) pixels.rgb[i] = 220;
  }
  const Result<Bytes> made = make("short:20:q95", with_orientation(*encode_jpeg(pixels, 95), 6));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(info_.size, (ImageSize{20, 40}));
  EXPECT_EQ(info_.orientation, 1);
  const Pixels small = decode_plainly(*made);
  EXPECT_NEAR(small.rgb[3 * (5 * 20 + 10)], 20, 6);
  EXPECT_NEAR(small.rgb[3 * (35 * 20 + 10)], 220, 6);
}

TEST_F(RepresentationTest, ShortOfAPngIsAJpeg) {
  const Result<Bytes> made = make("short:30", *write_png(decode_plainly(make_jpeg(kPhoto))));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(info_.format, ImageFormat::jpeg);
  EXPECT_EQ(info_.size, (ImageSize{45, 30}));
}

TEST_F(RepresentationTest, RawIsThePixelsChannelByChannel) {
  const Bytes jpeg = make_jpeg(kPhoto);
  const Result<Bytes> made = make("raw", jpeg);
  ASSERT_TRUE(made) << made.error().message;
  const ImageInfo expected{.format = ImageFormat::raw, .size = {90, 60}, .channels = 3};
  EXPECT_EQ(info_, expected);
  const Pixels pixels = decode_plainly(jpeg);
  ASSERT_EQ(made->size(), pixels.rgb.size());
  for (size_t i = 0; i < pixels.rgb.size(); ++i) {
    ASSERT_EQ(static_cast<uint8_t>((*made)[i % 3 * 5400 + i / 3]), pixels.rgb[i]) << i;
  }
}

TEST_F(RepresentationTest, RawIsUpright) {
  const Result<Bytes> made = make("raw", with_orientation(make_jpeg(kPhoto), 8));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(info_.size, (ImageSize{60, 90}));
  EXPECT_EQ(info_.orientation, 1);
}

TEST_F(RepresentationTest, RawInputStaysRawWhateverIsAsked) {
  const ImageInfo raw{.format = ImageFormat::raw, .size = {2, 2}, .channels = 1};
  for (const std::string name : {"orig", "base", "short:1", "raw"}) {
    ImageInfo info = raw;
    EXPECT_EQ(*represent(*parse_representation(name), "abcd", info, decoder_), "abcd") << name;
    EXPECT_EQ(info, raw);
  }
}

TEST_F(RepresentationTest, ADamagedImageIsCorrupt) {
  for (const std::string name : {"base", "short:24", "raw"}) {
    Bytes jpeg = progressive_jpeg();
    jpeg.resize(jpeg.size() / 2);
    const Result<Bytes> made = make(name, jpeg);
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, Code::corrupt) << name;
  }
}

}  // namespace
}  // namespace tern
