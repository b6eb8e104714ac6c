// Python's Pillow judges our resizing, our files and our decoding.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "image/decoder.h"
#include "image/jpeg.h"
#include "image/png.h"
#include "image/resize.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// Before every script: `planes` reads what we made of it, `rgb` what Pillow does, both as numbers.
constexpr const char* kPrologue = R"(
import math
import numpy as np
from PIL import Image, ImageOps
def planes(name, width, height):
    return np.fromfile(name, np.uint8).reshape(3, height, width).transpose(1, 2, 0).astype(int)
def rgb(image):
    return np.asarray(image.convert("RGB")).astype(int)
)";

class PillowJudge : public testing::Test {
 protected:
  PillowJudge() {
    std::string name = (fs::temp_directory_path() / "tern-pillow-XXXXXX").string();
    TERN_CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~PillowJudge() override { fs::remove_all(folder_); }

  void SetUp() override {
    const char* judges = std::getenv("TERN_TEST_PYTHONPATH");
    if (judges == nullptr || !fs::is_directory(fs::path(judges) / "PIL")) {
      GTEST_SKIP() << "no Pillow in TERN_TEST_PYTHONPATH";
    }
    judges_ = judges;
  }

  void write(const std::string& name, BytesView bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void write(const std::string& name, const std::vector<uint8_t>& bytes) {
    write(name, BytesView(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  // The script runs in the folder; what it prints is returned, and it must end well.
  std::string judged(const std::string& script) {
    write("judge.py", kPrologue + script);
    const std::string command =
        "cd '" + folder_.string() + "' && PYTHONPATH='" + judges_ + "' python3 judge.py 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    TERN_CHECK(pipe != nullptr);
    std::string said;
    char part[4096];
    while (const size_t size = std::fread(part, 1, sizeof part, pipe)) said.append(part, size);
    const int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << said;
    return said;
  }

  fs::path folder_;
  std::string judges_;
};

// Hard edges and soft ones.
Pixels picture(int32_t width, int32_t height) {
  Pixels pixels{.size = {width, height}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int soft = (x * (c + 1) + y) / 2 % 256;
        const bool is_hard = x / 32 % 2 == y / 32 % 2;
        pixels.rgb.push_back(is_hard ? test_sample(x, y, c) : static_cast<uint8_t>(soft));
      }
    }
  }
  return pixels;
}

Bytes png_of(const Pixels& pixels) {
  Result<Bytes> png = write_png(pixels);
  EXPECT_TRUE(png);
  return std::move(png).value_or("");
}

TEST_F(PillowJudge, ResizesWithinOneLevelOfBilinear) {
  const Pixels pixels = picture(500, 375);
  write("picture.png", png_of(pixels));
  const std::vector<View> views = {
      {0, 0, 500, 375, 224, 224},
      {31, 40, 300, 270, 224, 224},
      {31, 40, 300, 270, 224, 224, true},
      {10, 20, 150, 140, 224, 224},
      {100, 7, 61, 350, 224, 224},
      {3, 300, 480, 70, 224, 224, true},
      {85.9375, 23.4375, 328.125, 328.125, 224, 224},
      {0.5, 0.25, 499.5, 374.75, 64, 48},
      {200, 100, 8, 9, 224, 224},
      {0, 0, 500, 375, 7, 5},
      {7, 9, 224, 224, 224, 224},
      {0, 0, 500, 375, 160, 120},
  };
  std::string list;
  Resizer resizer;
  for (size_t i = 0; i < views.size(); ++i) {
    const View& view = views[i];
    std::vector<uint8_t> out(static_cast<size_t>(3 * view.out_width * view.out_height));
    resizer.resize(pixels, view, out);
    write("view" + std::to_string(i), out);
    char line[200];
    std::snprintf(line, sizeof line, "(%.17g, %.17g, %.17g, %.17g, %d, %d, %d),", view.left,
                  view.top, view.width, view.height, view.out_width, view.out_height,
                  view.mirror ? 1 : 0);
    list += line;
  }
  // Pillow's box= weighs pixels beyond the box; cut first, as every loader does.
  const std::string said = judged("views = [" + list + R"(]
image = Image.open("picture.png")
worst, total, bytes_ = 0, 0, 0
for i, (left, top, width, height, w, h, mirror) in enumerate(views):
    x, y = math.floor(left), math.floor(top)
    cut = image.crop((x, y, math.ceil(left + width), math.ceil(top + height)))
    box = (left - x, top - y, left - x + width, top - y + height)
    theirs = cut.resize((w, h), Image.Resampling.BILINEAR, box=box)
    if mirror: theirs = ImageOps.mirror(theirs)
    far = np.abs(rgb(theirs) - planes(f"view{i}", w, h))
    print(i, (width, height), "to", (w, h), "most", far.max(), "mean", round(far.mean(), 5))
    assert far.max() <= 1 and far.mean() < 0.1
print("near")
)");
  EXPECT_TRUE(said.ends_with("near\n")) << said;
  RecordProperty("differences", said);
}

TEST_F(PillowJudge, ReadsThePngThatWeWrite) {
  const Pixels pixels = picture(101, 67);
  write("picture.png", png_of(pixels));
  write("pixels", pixels.rgb);
  EXPECT_EQ(judged(R"(
image = Image.open("picture.png")
assert image.mode == "RGB" and image.size == (101, 67)
assert image.tobytes() == open("pixels", "rb").read()
print("equal")
)"),
            "equal\n");
}

TEST_F(PillowJudge, WritesPngsThatWeReadAsItDoes) {
  EXPECT_EQ(judged(R"(
noise = np.random.default_rng(1).integers(0, 256, (40, 50, 4), np.uint8)
rgba = Image.fromarray(noise, "RGBA")
kinds = {"rgba": rgba, "rgb": rgba.convert("RGB"), "la": rgba.convert("LA"), "l": rgba.convert("L"),
         "p": rgba.convert("RGB").quantize(200), "one": rgba.convert("1")}
for name, image in kinds.items():
    image.save(name + ".png", **({"transparency": 3} if name == "p" else {}))
    open(name, "wb").write(Image.open(name + ".png").convert("RGB").tobytes())
print("saved")
)"),
            "saved\n");
  for (const char* name : {"rgba", "rgb", "la", "l", "p", "one"}) {
    std::ifstream file(folder_ / (std::string(name) + ".png"), std::ios::binary);
    const Bytes png{std::istreambuf_iterator<char>(file), {}};
    std::ifstream expected(folder_ / name, std::ios::binary);
    Pixels pixels;
    ASSERT_TRUE(read_png(png, pixels)) << name;
    EXPECT_EQ(Bytes(pixels.rgb.begin(), pixels.rgb.end()),
              Bytes(std::istreambuf_iterator<char>(expected), {}))
        << name;
  }
}

TEST_F(PillowJudge, DecodesTheJpegThatWeEncodeToTheSamePixels) {
  const Result<Bytes> jpeg = encode_jpeg(picture(203, 151), 90);
  ASSERT_TRUE(jpeg);
  const Result<ImageInfo> info = probe_image(*jpeg);
  ASSERT_TRUE(info);
  Pixels pixels;
  ASSERT_TRUE(ImageDecoder().decode_rgb(*jpeg, *info, pixels));
  write("picture.jpg", *jpeg);
  write("pixels", pixels.rgb);
  EXPECT_EQ(judged(R"(
image = Image.open("picture.jpg")
assert image.mode == "RGB" and image.size == (203, 151)
far = np.abs(rgb(image) - np.fromfile("pixels", np.uint8).reshape(151, 203, 3).astype(int))
print("differs by", far.max())
)"),
            "differs by 0\n");
}

TEST_F(PillowJudge, TurnsRotatedPhotosAsWeDo) {
  const Result<Bytes> jpeg = encode_jpeg(picture(90, 61), 90);
  ASSERT_TRUE(jpeg);
  write("picture.jpg", *jpeg);
  ASSERT_EQ(judged(R"(
for orientation in range(1, 9):
    image = Image.open("picture.jpg")
    exif = image.getexif()
    exif[0x0112] = orientation
    image.save(f"{orientation}.jpg", exif=exif, quality=95)
print("saved")
)"),
            "saved\n");
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = std::to_string(orientation);
    std::ifstream file(folder_ / (name + ".jpg"), std::ios::binary);
    const Bytes turned{std::istreambuf_iterator<char>(file), {}};
    const Result<ImageInfo> info = probe_image(turned);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->orientation, orientation);
    std::vector<uint8_t> out(static_cast<size_t>(3 * info->size.pixels()));
    ASSERT_TRUE(ImageDecoder().decode_whole(turned, *info, out));
    write(name, out);
  }
  EXPECT_EQ(judged(R"(
for orientation in range(1, 9):
    upright = ImageOps.exif_transpose(Image.open(f"{orientation}.jpg"))
    assert (rgb(upright) == planes(str(orientation), *upright.size)).all(), orientation
print("equal")
)"),
            "equal\n");
}

}  // namespace
}  // namespace tern
