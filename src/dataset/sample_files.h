// Where the bytes of samples come from: files of a folder, objects of a store, or a local copy that
// is made ahead of need.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/index.h"
#include "storage/object_store.h"

namespace tern {

// Bytes [offset, offset + length) of a file of the index.
struct StoredRange {
  int64_t file = 0;
  int64_t offset = 0;
  int64_t length = 0;
};

// Safe from any thread; a call blocks for one read.
class SampleFiles {
 public:
  virtual ~SampleFiles() = default;

  // Bytes [offset, offset + length) of a file of the index, into `buffer`, which is resized. An
  // early end is `corrupt`; others say what the file system or the store said.
  virtual Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) const = 0;
  // Each as read(), in their order; nothing where asking for them one by one is as good.
  virtual std::vector<Result<Bytes>> read_many(std::span<const StoredRange> /*ranges*/) const {
    return {};
  }
  // For messages: "shards/00012.shard" with where that is.
  virtual std::string where(int64_t file) const = 0;
  // What was read of this file does not verify. True if another read may give other bytes, because
  // they came from a copy, which is dropped.
  virtual bool distrust(int64_t /*file*/) const { return false; }
};

// Files below `folder`. At most `open_files_max` are kept open, the least recently used are closed;
// no mapping: a network file system that goes away is an error, not the end of the process.
// `index` outlives it.
std::unique_ptr<SampleFiles> open_folder_files(std::string folder, const DatasetIndex& index,
                                               int64_t open_files_max = 128);

// Objects of a store that it keeps, by ranged reads; `place` is for messages. `index` outlives it.
std::unique_ptr<SampleFiles> open_store_files(std::shared_ptr<ObjectStore> store, std::string place,
                                              const DatasetIndex& index);

}  // namespace tern
