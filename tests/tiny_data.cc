#include "tiny_data.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/random.h"

namespace tern {
namespace {

constexpr int64_t kSide = 8;
constexpr int64_t kClasses = 4;

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

void write_half(const std::filesystem::path& folder, const std::string& half, int64_t samples,
                uint64_t seed) {
  std::string images = big_endian(0x803) + big_endian(static_cast<uint32_t>(samples)) +
                       big_endian(kSide) + big_endian(kSide);
  std::string labels = big_endian(0x801) + big_endian(static_cast<uint32_t>(samples));
  for (int64_t sample = 0; sample < samples; ++sample) {
    Random random(seed, Stream::augment, static_cast<uint64_t>(sample), half == "train" ? 0 : 1);
    const int64_t label = sample % kClasses;
    labels += static_cast<char>(label);
    for (int64_t pixel = 0; pixel < kSide * kSide; ++pixel) {
      const bool is_lit = (pixel / kSide) / 2 == label;
      images += static_cast<char>(random.below(120) + (is_lit ? 120 : 0));
    }
  }
  write_text(folder / (half + "-images-idx3-ubyte"), images);
  write_text(folder / (half + "-labels-idx1-ubyte"), labels);
}

}  // namespace

void write_tiny_data(const std::filesystem::path& folder, const TinyData& data) {
  std::filesystem::create_directories(folder);
  write_half(folder, "train", data.train_samples, data.seed);
  write_half(folder, "t10k", data.test_samples, data.seed);
}

ScratchFolder::ScratchFolder() {
  const bool in_memory = access("/dev/shm", W_OK) == 0;
  std::string name = (in_memory ? "/dev/shm" : testing::TempDir()) + "/tern-test-XXXXXX";
  EXPECT_NE(mkdtemp(name.data()), nullptr) << "cannot make a folder like " << name;
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  EXPECT_TRUE(file.good()) << path;
}

}  // namespace tern
