// What does decoding only the rows and columns that a random part needs save, and are its pixels
// those of decoding the whole image? One core, CPU time, whole and part in turn.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/random.h"
#include "image/jpeg.h"
#include "loader/view.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr double kMust = 1.15;
constexpr uint64_t kPasses = 5;

struct Picture {
  Bytes bytes;
  ImageSize size;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

std::vector<Picture> read_pictures(const fs::path& folder) {
  std::vector<Picture> pictures;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    Picture picture{{std::istreambuf_iterator<char>(file), {}}, {}};
    const Result<ImageInfo> info = probe_jpeg(picture.bytes);
    if (!info || info->orientation != 1) continue;
    picture.size = info->size;
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

Box whole_of(const Picture& picture) { return {0, 0, picture.size.width, picture.size.height}; }

Box box_of(const Picture& picture, uint64_t number) {
  ImageOptions options{.size = 224};
  Random random(1, Stream::view, 0, number);
  const View view = draw_resized_crop(options, picture.size, random);
  return {static_cast<int32_t>(view.left), static_cast<int32_t>(view.top),
          static_cast<int32_t>(view.width), static_cast<int32_t>(view.height)};
}

bool is_cut_of(const Pixels& part, const Pixels& whole, Box box) {
  for (int32_t y = 0; y < box.height; ++y) {
    const auto* row = whole.rgb.data() +
                      (static_cast<size_t>(box.top + y) * static_cast<size_t>(whole.size.width) +
                       static_cast<size_t>(box.left)) *
                          3;
    const auto bytes = static_cast<size_t>(box.width) * 3;
    if (!std::equal(row, row + bytes, part.rgb.data() + static_cast<size_t>(y) * bytes))
      return false;
  }
  return true;
}

int bench(const fs::path& folder) {
  const std::vector<Picture> pictures = read_pictures(folder);
  if (pictures.empty()) {
    fmt::print(stderr, "no JPEG files in {}\n", folder.string());
    return 2;
  }
  JpegReader reader;
  Pixels whole, part;
  double whole_best = 1e30, part_best = 1e30;
  int64_t different = 0;
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    const double start = cpu_seconds();
    for (const Picture& picture : pictures) {
      if (!reader.read(picture.bytes, whole_of(picture), 1, whole)) return 2;
    }
    const double middle = cpu_seconds();
    for (size_t i = 0; i < pictures.size(); ++i) {
      const Box box = box_of(pictures[i], pass * pictures.size() + i);
      if (!reader.read(pictures[i].bytes, box, 1, part)) return 2;
    }
    whole_best = std::min(whole_best, middle - start);
    part_best = std::min(part_best, cpu_seconds() - middle);
    for (size_t i = 0; i < pictures.size(); ++i) {
      const Box box = box_of(pictures[i], pass * pictures.size() + i);
      if (!reader.read(pictures[i].bytes, whole_of(pictures[i]), 1, whole)) return 2;
      if (!reader.read(pictures[i].bytes, box, 1, part)) return 2;
      different += is_cut_of(part, whole, box) ? 0 : 1;
    }
  }
  const auto count = static_cast<double>(pictures.size());
  const double ratio = whole_best / part_best;
  fmt::print("{} pictures, {} passes, one core\n\n", pictures.size(), kPasses);
  fmt::print("whole image         {:8.0f} a CPU second\n", count / whole_best);
  fmt::print("random parts        {:8.0f} a CPU second, {:.2f} times\n", count / part_best, ratio);
  fmt::print("pixels that differ  {:8}\n\n", different);
  const bool is_kept = ratio >= kMust && different == 0;
  fmt::print("at least {} times and no difference are asked: {}\n", kMust,
             is_kept ? "kept" : "MISSED");
  return is_kept ? 0 : 1;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) == "--help") {
    fmt::print("usage: crop_decode FOLDER    (of JPEG files, with folders below)\n");
    return argc == 2 ? 0 : 2;
  }
  return tern::bench(argv[1]);
}
