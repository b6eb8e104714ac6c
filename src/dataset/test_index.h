// For tests: an imported data set of raw images, small enough to look at, in files of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/crc32c.h"
#include "dataset/index.h"
#include "dataset/test_folder.h"
#include "storage/object_store.h"

namespace tern {

// Samples are named "s0", "s1"... and differ from each other. Files are "shards/0.shard" and so on:
// some bytes that are no sample, then sample after sample, then such bytes again.
struct TestSet {
  IndexContent content;
  std::map<std::string, Bytes> files;

  Bytes index_bytes() const { return encode_index(content); }

  std::unique_ptr<DatasetIndex> index() const {
    return std::move(DatasetIndex::from_bytes(index_bytes(), "test")).value();
  }

  // What sample i is.
  BytesView stored(int64_t i) const {
    const IndexEntry& entry = content.entries[static_cast<size_t>(i)];
    return BytesView(files.at(content.files[entry.file].path)).substr(entry.offset, entry.length);
  }

  void write_files(const TestFolder& folder) const {
    for (const auto& [path, bytes] : files) folder.write(path, bytes);
  }

  void write(const TestFolder& folder) const {
    write_files(folder);
    folder.write(kIndexFile, index_bytes());
  }

  void put(ObjectStore& store, const std::string& prefix) const {
    for (const auto& [path, bytes] : files) EXPECT_TRUE(store.put(prefix + path, bytes));
    EXPECT_TRUE(store.put(prefix + kIndexFile, index_bytes()));
  }
};

struct TestSetSize {
  int64_t files = 3;
  int64_t samples_per_file = 20;
  int64_t test_samples = 0;  // of the last ones
  uint16_t width = 6;
  uint16_t height = 4;
};

inline TestSet make_test_set(const TestSetSize& size = {}) {
  TestSet set;
  const auto bytes_each = static_cast<size_t>(size.width) * size.height;
  const Bytes varied =
      varied_bytes(bytes_each * static_cast<size_t>(size.files * size.samples_per_file) + 100);
  size_t taken = 0;
  for (int64_t file = 0; file < size.files; ++file) {
    const std::string path = "shards/" + std::to_string(file) + ".shard";
    Bytes bytes = "header";
    for (int64_t i = 0; i < size.samples_per_file; ++i) {
      const BytesView stored = BytesView(varied).substr(taken, bytes_each);
      taken += bytes_each;
      set.content.names.push_back("s" + std::to_string(set.content.names.size()));
      set.content.entries.push_back({.offset = bytes.size(),
                                     .length = static_cast<uint32_t>(bytes_each),
                                     .crc32c = crc32c(stored),
                                     .file = static_cast<uint32_t>(file),
                                     .label = static_cast<uint32_t>(i % 10),
                                     .width = size.width,
                                     .height = size.height,
                                     .format = static_cast<uint8_t>(ImageFormat::raw),
                                     .channels = 1});
      bytes.append(stored);
    }
    bytes.append("footer");
    set.content.files.push_back({path, static_cast<int64_t>(bytes.size())});
    set.files.emplace(path, std::move(bytes));
  }
  set.content.train_samples = static_cast<int64_t>(set.content.entries.size()) - size.test_samples;
  for (int label = 0; label < 10; ++label) {
    set.content.about.classes.push_back(std::to_string(label));
  }
  return set;
}

}  // namespace tern
