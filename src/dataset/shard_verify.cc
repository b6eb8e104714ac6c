#include <fmt/format.h>

#include <algorithm>

#include "core/crc32c.h"
#include "dataset/shard.h"
#include "dataset/shard_format.h"

namespace tern {
namespace {

// Reads a shard from its beginning to its end, a chunk at a time.
class ShardStream {
 public:
  explicit ShardStream(const ShardBytes& shard) : shard_(shard) {}

  // Hands the next `length` bytes to `use`, in pieces that stay valid during the call.
  template <typename Use>
  Status read(int64_t length, Use use) {
    while (length > 0) {
      if (rest_.empty()) RETURN_IF_ERROR(fill());
      const BytesView piece = rest_.substr(
          0, static_cast<size_t>(std::min(length, static_cast<int64_t>(rest_.size()))));
      use(piece);
      rest_.remove_prefix(piece.size());
      length -= static_cast<int64_t>(piece.size());
    }
    return {};
  }

  // True if the next bytes are `expected`; they are taken in any case.
  Result<bool> matches(BytesView expected) {
    bool same = true;
    RETURN_IF_ERROR(read(static_cast<int64_t>(expected.size()), [&](BytesView piece) {
      same = same && expected.starts_with(piece);
      expected.remove_prefix(piece.size());
    }));
    return same;
  }

 private:
  Status fill() {
    const int64_t left = shard_.size_bytes - at_;
    if (left > 0) {
      ASSIGN_OR_RETURN(chunk_, shard_.read(at_, std::min(left, shard_.chunk_bytes)));
      at_ += static_cast<int64_t>(chunk_.size());
      rest_ = chunk_;
    }
    if (!rest_.empty()) return {};
    return damaged_shard(shard_.name, "it became shorter while it was read");
  }

  const ShardBytes& shard_;
  int64_t at_ = 0;
  Bytes chunk_;
  BytesView rest_;
};

// What is wrong with the record that the stream stands at, empty if nothing is. Its lengths are
// those of the index, which is checked: a damaged head does not lose the records behind it.
Result<std::string> check_record(ShardStream& stream, const ShardRecord& record) {
  const Bytes front = shard_record_front(record);
  const BytesView head = BytesView(front).substr(0, sizeof(ShardRecordHead));
  ASSIGN_OR_RETURN(const bool head_matches, stream.matches(head));
  ASSIGN_OR_RETURN(const bool name_matches, stream.matches(record.name));
  uint32_t found = 0;
  RETURN_IF_ERROR(
      stream.read(record.length, [&](BytesView piece) { found = crc32c(piece, found); }));
  const int64_t padding = shard_padding(static_cast<int64_t>(record.offset + record.length));
  const Bytes zeros(static_cast<size_t>(padding), '\0');
  ASSIGN_OR_RETURN(const bool padding_matches, stream.matches(zeros));
  if (found != record.crc32c) {
    return fmt::format("its {} bytes at {} have checksum {:08x} and should have {:08x}",
                       record.length, record.offset, found, record.crc32c);
  }
  if (!head_matches) return "its head is not what the index says";
  if (!name_matches) return "its name is not what the index says";
  if (!padding_matches) return "the padding behind it is not zero";
  return "";
}

}  // namespace

Status verify_shard(const ShardBytes& shard, const std::vector<ShardRecord>& records,
                    const OnDamage& on_damage) {
  ShardStream stream(shard);
  const ShardHeader header = shard_header();
  ASSIGN_OR_RETURN(const bool header_matches, stream.matches(shard_bytes_of(header)));
  for (const ShardRecord& record : records) {
    if (!record.bad_cause.empty()) continue;
    ASSIGN_OR_RETURN(const std::string what, check_record(stream, record));
    if (!what.empty()) on_damage(record, what);
  }
  // Last, because the records do not depend on it.
  if (!header_matches) return damaged_shard(shard.name, "the header is not that of a shard");
  return {};
}

Status verify_shard(const std::filesystem::path& file, const OnDamage& on_damage) {
  ASSIGN_OR_RETURN(const ShardBytes shard, open_shard(file));
  ASSIGN_OR_RETURN(const std::vector<ShardRecord> records, read_shard_index(shard));
  return verify_shard(shard, records, on_damage);
}

}  // namespace tern
