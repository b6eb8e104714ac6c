// A shard: an immutable file of about 64 MB of samples, each with its checksum, and an index of
// them at its end. docs/format_shard.md specifies the bytes.
//
// A shard is complete or absent: it is written under another name, synced and renamed. What it says
// of its samples is enough to build the data set's index again, so an import that was killed goes
// on from the shards it finds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "image/image.h"
#include "storage/object_store.h"

namespace tern {

// What a shard says of one sample.
struct ShardRecord {
  std::string name;        // unique in its split: "n01440764/n01440764_10026.JPEG"
  std::string class_name;  // labels are given out when all classes are known
  Split split = Split::train;
  ImageInfo info;
  uint64_t offset = 0;  // of the payload
  uint32_t length = 0;
  uint32_t crc32c = 0;
  // A bad sample has a cause, no payload and no info; it is listed so that going on does not try it
  // again.
  std::string bad_cause;

  bool operator==(const ShardRecord&) const = default;
};

// Writes one shard. One thread. What is not finished leaves only FILE.part behind, which the next
// writer of the same file replaces.
class ShardWriter {
 public:
  static Result<std::unique_ptr<ShardWriter>> create(const std::filesystem::path& file);
  ~ShardWriter();  // unfinished: removes its file

  // Fills in offset, length and crc32c; drops the info of a bad sample. `invalid`, and nothing is
  // added, if the record cannot be stored (docs/format_shard.md); after any other failure, such as
  // a full disk, every later call fails with the same error.
  Status add(ShardRecord record, BytesView payload);
  int64_t bytes() const;    // so far
  int64_t samples() const;  // so far
  // Writes the index, syncs file and folder, renames.
  Status finish();

 private:
  struct State;
  explicit ShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The bytes of a shard, wherever it is.
struct ShardBytes {
  std::string name;  // for messages
  int64_t size_bytes = 0;
  // Bytes [offset, offset + length); fewer only where it ends. REQUIRES: 0 <= offset <= size_bytes.
  std::function<Result<Bytes>(int64_t offset, int64_t length)> read;
  int64_t chunk_bytes = int64_t{1} << 20;  // that are asked for at once to read it all
};
Result<ShardBytes> open_shard(const std::filesystem::path& file);
// An object. `store` outlives the bytes.
Result<ShardBytes> open_shard(ObjectStore& store, const std::string& object);

// The index at the end of a shard, checked: its checksum, and that every record lies within the
// shard. `corrupt` names the shard and what is wrong.
Result<std::vector<ShardRecord>> read_shard_index(const ShardBytes& shard);
Result<std::vector<ShardRecord>> read_shard_index(const std::filesystem::path& file);
// The same of a shard that is in memory (a whole object, a fuzzer's bytes). `name` is for messages.
Result<std::vector<ShardRecord>> parse_shard(BytesView bytes, const std::string& name);

using OnDamage = std::function<void(const ShardRecord&, const std::string& what)>;

// Reads every byte, a chunk at a time. `on_damage` is called for each record that does not verify,
// with what is wrong; an error is returned if the shard cannot be read, or if its header is damaged
// (`corrupt`). REQUIRES: `records` are what read_shard_index() gave.
Status verify_shard(const ShardBytes& shard, const std::vector<ShardRecord>& records,
                    const OnDamage& on_damage);
// Of a file, with its index, which may be `corrupt`: without it there are no records to check.
Status verify_shard(const std::filesystem::path& file, const OnDamage& on_damage);

}  // namespace tern
