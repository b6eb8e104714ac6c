// For tests: a folder of data files that goes away with the test, and the bytes to put in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace tern {

class TestFolder {
 public:
  TestFolder() : path_(testing::TempDir() + "/tern_dataset_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }

  // Replaces the file, making folders as needed; returns its path.
  std::string write(const std::string& name, BytesView bytes) const {
    const std::filesystem::path path = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path.string();
  }

  void remove(const std::string& name) const {
    std::filesystem::remove(std::filesystem::path(path_) / name);
  }

 private:
  std::string path_;
};

inline Bytes gzip_bytes(BytesView plain) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  Bytes packed(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// An IDX file: magic number, sizes, content.
inline Bytes idx_bytes(uint32_t magic, const std::vector<uint32_t>& sizes, BytesView content) {
  Bytes bytes;
  std::vector<uint32_t> words = {magic};
  words.insert(words.end(), sizes.begin(), sizes.end());
  for (uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes.append(content);
}

// Bytes that differ from sample to sample and do not compress to nothing.
inline Bytes varied_bytes(size_t count) {
  Bytes bytes(count, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace tern
