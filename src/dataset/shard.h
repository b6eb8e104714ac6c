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

// The index at the end of a shard, checked: its checksum, and that every record lies within the
// file. `corrupt` names the file and what is wrong.
Result<std::vector<ShardRecord>> read_shard_index(const std::filesystem::path& file);
// The same of a shard that is in memory (a whole object, a fuzzer's bytes). `name` is for messages.
Result<std::vector<ShardRecord>> parse_shard(BytesView bytes, const std::string& name);

// Reads every byte, a megabyte at a time. `on_damage` is called for each record that does not
// verify, with what is wrong; an error is returned if the file cannot be read, or if its header or
// its index is damaged (`corrupt`; without an index there are no records to check).
Status verify_shard(
    const std::filesystem::path& file,
    const std::function<void(const ShardRecord&, const std::string& what)>& on_damage);

}  // namespace tern
