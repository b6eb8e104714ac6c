#include "import/pixel_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "image/decoder.h"
#include "import/parallel.h"
#include "import/range_reader.h"

namespace tern {
namespace {

constexpr size_t kChannelsMax = 3;
constexpr double kWhite = 255;

// 1,000 images of 2^28 pixels: the squares add up to less than 2^55.
struct Sums {
  std::array<uint64_t, kChannelsMax> values{};
  std::array<uint64_t, kChannelsMax> squares{};
  uint64_t pixels = 0;
  int64_t samples = 0;

  void add(const Sums& other) {
    for (size_t c = 0; c < kChannelsMax; ++c) {
      values[c] += other.values[c];
      squares[c] += other.squares[c];
    }
    pixels += other.pixels;
    samples += other.samples;
  }
};

// What one thread needs and finds.
class Measurer {
 public:
  explicit Measurer(const std::filesystem::path& root) : reader_(root) {}

  Status measure(const FileRange& range, const ImageInfo& info) {
    ASSIGN_OR_RETURN(const Bytes stored, reader_.read(range));
    const auto plane = static_cast<size_t>(info.size.pixels());
    pixels_.resize(info.channels * plane);
    if (!decoder_.decode_whole(stored, info, pixels_)) return {};
    for (size_t c = 0; c < info.channels; ++c) add_plane(c, pixels_.data() + c * plane, plane);
    sums_.pixels += plane;
    sums_.samples += 1;
    return {};
  }
  const Sums& sums() const { return sums_; }

 private:
  void add_plane(size_t channel, const uint8_t* pixels, size_t count) {
    // Blocks whose squares fit 32 bits: that is what compilers make vectors of.
    constexpr size_t kBlock = 65'536;
    for (size_t begin = 0; begin < count; begin += kBlock) {
      uint32_t values = 0;
      uint32_t squares = 0;
      const size_t end = std::min(begin + kBlock, count);
      for (size_t i = begin; i < end; ++i) {
        const uint32_t value = pixels[i];
        values += value;
        squares += value * value;
      }
      sums_.values[channel] += values;
      sums_.squares[channel] += squares;
    }
  }

  RangeReader reader_;
  ImageDecoder decoder_;
  std::vector<uint8_t> pixels_;
  Sums sums_;
};

PixelStatistics statistics_of(const Sums& sums, size_t channels) {
  PixelStatistics statistics{.samples = sums.samples};
  if (sums.pixels == 0) return statistics;
  const auto count = static_cast<double>(sums.pixels);
  for (size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums.values[c]) / count;
    const double square = static_cast<double>(sums.squares[c]) / count;
    statistics.mean.push_back(mean / kWhite);
    statistics.stddev.push_back(std::sqrt(std::max(square - mean * mean, 0.0)) / kWhite);
  }
  return statistics;
}

}  // namespace

Result<PixelStatistics> measure_pixels(const IndexContent& content,
                                       const std::filesystem::path& root, int64_t samples_max,
                                       int64_t threads, std::stop_token stop) {
  const int64_t chosen = std::min(content.train_samples, samples_max);
  if (chosen <= 0) return PixelStatistics{};
  const size_t channels = content.entries.front().channels;
  if (channels > kChannelsMax) return PixelStatistics{};
  std::vector<std::unique_ptr<Measurer>> measurers;
  for (int64_t i = 0; i < threads; ++i) measurers.push_back(std::make_unique<Measurer>(root));
  const auto measure = [&](int64_t item, int64_t thread) -> Status {
    const IndexEntry& entry =
        content.entries[static_cast<size_t>(item * content.train_samples / chosen)];
    if (entry.channels != channels) return {};
    return measurers[static_cast<size_t>(thread)]->measure(
        {.file = content.files[entry.file].path,
         .offset = static_cast<int64_t>(entry.offset),
         .length = entry.length},
        entry.info());
  };
  RETURN_IF_ERROR(for_each_in_parallel(chosen, threads, stop, measure));
  Sums sums;
  for (const auto& measurer : measurers) sums.add(measurer->sums());
  return statistics_of(sums, channels);
}

}  // namespace tern
