// Photos from real cameras, where TERN_TEST_DATA names a folder that has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/random.h"
#include "image/jpeg.h"
#include "image/test_jpegs.h"

namespace tern {
namespace {

// Every `step`th JPEG of a plain tar.
std::vector<Bytes> photos_of(const std::string& tar_path, size_t step) {
  constexpr size_t kBlock = 512;
  std::ifstream file(tar_path, std::ios::binary);
  const Bytes tar((std::istreambuf_iterator<char>(file)), {});
  std::vector<Bytes> photos;
  size_t seen = 0;
  for (size_t at = 0; at + kBlock <= tar.size();) {
    const size_t size = std::strtoul(tar.substr(at + 124, 11).c_str(), nullptr, 8);
    const Bytes content = tar.substr(at + kBlock, size);
    if (content.starts_with("\xFF\xD8") && seen++ % step == 0) photos.push_back(content);
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return photos;
}

TEST(RealDataJpeg, BoxesOfPhotosAreThoseOfTheWholePhoto) {
  const char* folder = std::getenv("TERN_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "TERN_TEST_DATA names no folder";
  const std::vector<Bytes> photos = photos_of(std::string(folder) + "/hymenoptera-200.tar", 8);
  ASSERT_GE(photos.size(), 20U);
  JpegReader reader;
  Pixels pixels;
  for (size_t i = 0; i < photos.size(); ++i) {
    for (const int reduce : {1, 2, 4, 8}) {
      const Pixels whole = decode_plainly(photos[i], reduce);
      Random random(5, Stream::augment, i);
      for (int n = 0; n < 8; ++n) {
        const auto below = [&](int bound) {
          return static_cast<int>(random.below(static_cast<uint32_t>(bound)));
        };
        Box box{below(whole.size.width), below(whole.size.height), 0, 0};
        box.width = 1 + below(whole.size.width - box.left);
        box.height = 1 + below(whole.size.height - box.top);
        if (n == 0) box = {0, 0, whole.size.width, whole.size.height};
        const Status status = reader.read(photos[i], box, reduce, pixels);
        ASSERT_TRUE(status) << "photo " << i << ": " << status.error().to_string();
        ASSERT_TRUE(pixels.rgb == cut(whole, box)) << "photo " << i << " reduced by " << reduce;
      }
    }
  }
}

TEST(RealDataJpeg, BaselineOfPhotosKeepsThePixels) {
  const char* folder = std::getenv("TERN_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "TERN_TEST_DATA names no folder";
  for (const Bytes& photo : photos_of(std::string(folder) + "/hymenoptera-200.tar", 20)) {
    const Result<Bytes> baseline = jpeg_to_baseline(photo);
    ASSERT_TRUE(baseline) << baseline.error().to_string();
    EXPECT_TRUE(decode_plainly(photo).rgb == decode_plainly(*baseline).rgb);
  }
}

}  // namespace
}  // namespace tern
