// For tests of imports: sources in memory, folders, and what an import left in one.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "import/source.h"

namespace tern {

// A folder of its own, removed with the object.
class TestPlace {
 public:
  TestPlace() {
    std::string name = testing::TempDir() + "/tern-import-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = std::filesystem::path(name).lexically_normal();
  }
  ~TestPlace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestPlace(const TestPlace&) = delete;
  TestPlace& operator=(const TestPlace&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::filesystem::path path_;
};

inline Bytes read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every file below, by its path from there; folders end in '/'.
inline std::map<std::string, Bytes> read_tree(const std::filesystem::path& folder) {
  std::map<std::string, Bytes> tree;
  if (!std::filesystem::exists(folder)) return tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_directory()) {
      tree[name + "/"] = "";
    } else {
      tree[name] = read_whole(entry.path());
    }
  }
  return tree;
}

// The files that are not the same in both, or only in one.
inline std::vector<std::string> differences(const std::filesystem::path& folder,
                                            const std::map<std::string, Bytes>& expected) {
  const std::map<std::string, Bytes> found = read_tree(folder);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : found) {
    const auto same = expected.find(name);
    if (same == expected.end() || same->second != bytes) names.push_back(name);
  }
  for (const auto& [name, bytes] : expected) {
    if (!found.contains(name)) names.push_back(name);
  }
  return names;
}

// Pixels of a grey image of the size, as a source of raw samples gives them; all have `value`, save
// the first, which is the sample's number.
inline SourceSample raw_sample(int number, const std::string& class_name, Split split,
                               ImageSize size, uint8_t value) {
  SourceSample sample;
  sample.name = class_name + "/" + std::to_string(number);
  sample.class_name = class_name;
  sample.split = split;
  sample.bytes = Bytes(static_cast<size_t>(size.pixels()), static_cast<char>(value));
  sample.bytes[0] = static_cast<char>(number);
  sample.raw = ImageInfo{.format = ImageFormat::raw, .size = size, .channels = 1};
  return sample;
}

class MemorySource : public Source {
 public:
  explicit MemorySource(std::vector<SourceSample> samples, std::string root = "/nowhere")
      : samples_(std::move(samples)), root_(std::move(root)) {}

  std::string describe() const override { return "samples in memory"; }
  std::string root() const override { return root_; }
  std::string version() const override { return written; }
  int64_t total_bytes() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t bytes_done() const override { return done_; }
  Status scan(const std::function<Status(SourceSample)>& visit) override {
    done_ = 0;
    for (const SourceSample& sample : samples_) {
      if (before) RETURN_IF_ERROR(before(done_));
      RETURN_IF_ERROR(visit(sample));
      ++done_;
    }
    return {};
  }
  int64_t ignored() const override { return 7; }
  std::vector<std::string> classes() const override { return given; }

  // Called with the number of each sample before it is given out.
  std::function<Status(int64_t)> before;
  std::vector<std::string> given;
  std::string written = "today";

 private:
  const std::vector<SourceSample> samples_;
  const std::string root_;
  int64_t done_ = 0;
};

// Samples of three classes, every fifth for testing, of different sizes.
inline std::vector<SourceSample> some_samples(int count) {
  std::vector<SourceSample> samples;
  for (int i = 0; i < count; ++i) {
    const std::string name = i % 3 == 0 ? "cat" : i % 3 == 1 ? "ant" : "bee";
    samples.push_back(raw_sample(i, name, i % 5 == 4 ? Split::test : Split::train,
                                 {16 + i % 7, 12 + i % 5}, static_cast<uint8_t>(i * 5)));
  }
  return samples;
}

}  // namespace tern
