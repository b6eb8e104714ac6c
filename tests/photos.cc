#include "photos.h"

#include <fmt/format.h>

#include "core/random.h"
#include "image/jpeg.h"
#include "tiny_data.h"

namespace tern {
namespace {

Pixels draw_photo(bool is_bee, Random& random) {
  Pixels pixels;
  pixels.size = {static_cast<int32_t>(40 + random.below(50)),
                 static_cast<int32_t>(40 + random.below(50))};
  const uint8_t ground[3] = {is_bee ? uint8_t{190} : uint8_t{90},
                             is_bee ? uint8_t{160} : uint8_t{60}, uint8_t{50}};
  for (int64_t i = 0; i < pixels.size.pixels(); ++i) {
    const uint32_t noise = random.below(48);
    for (const uint8_t colour : ground) pixels.rgb.push_back(static_cast<uint8_t>(colour + noise));
  }
  return pixels;
}

void write_split(const std::filesystem::path& folder, int64_t per_class, Random& random) {
  for (const bool is_bee : {false, true}) {
    for (int64_t i = 0; i < per_class; ++i) {
      const Result<Bytes> jpeg = encode_jpeg(draw_photo(is_bee, random), 90);
      TERN_CHECK(jpeg.has_value());
      const auto name = folder / (is_bee ? "bees" : "ants") / fmt::format("{:03}.jpg", i);
      std::filesystem::create_directories(name.parent_path());
      write_text(name, *jpeg);
    }
  }
}

}  // namespace

void write_photos(const std::filesystem::path& folder, const Photos& photos) {
  Random random(photos.seed, Stream::fingerprint, 0);
  write_split(folder / "train", photos.train_per_class, random);
  write_split(folder / "val", photos.test_per_class, random);
}

}  // namespace tern
