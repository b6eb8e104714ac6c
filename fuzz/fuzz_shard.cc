// The index at the end of a shard, and the check of all its bytes.
#include <cstring>

#include "core/crc32c.h"
#include "dataset/shard_format.h"
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_folder.h"

namespace tern {
namespace {

// Under a checksum that is right, which is what a fuzzer would not find. With `stretch` the index
// ends where the footer begins, so that it can grow.
Bytes signed_again(BytesView bytes, bool stretch) {
  Bytes shard(bytes);
  ShardFooter footer;
  if (shard.size() < sizeof footer) return shard;
  const size_t footer_at = shard.size() - sizeof footer;
  std::memcpy(&footer, shard.data() + footer_at, sizeof footer);
  if (footer.index_offset > footer_at) return shard;
  if (stretch) footer.index_length = footer_at - footer.index_offset;
  footer.index_crc32c =
      crc32c(BytesView(shard).substr(footer.index_offset, footer_at - footer.index_offset));
  std::memcpy(shard.data() + footer_at, &footer, sizeof footer);
  return shard;
}

void try_shard(BytesView bytes) {
  static const FuzzFolder folder;
  const uint8_t choice = take_choice(bytes);
  const Bytes shard = (choice & 1) != 0 ? signed_again(bytes, (choice & 2) != 0) : Bytes(bytes);
  const auto records = parse_shard(shard, "fuzz");
  if (records) {
    for (const ShardRecord& record : *records) {
      TERN_CHECK(record.offset <= shard.size() && record.length <= shard.size() - record.offset);
      TERN_CHECK(!record.name.empty());
    }
  }
  if ((choice & 4) == 0) return;
  const std::string file = folder.write("shard", shard);
  const auto read = read_shard_index(file);
  TERN_CHECK(read.has_value() == records.has_value());
  TERN_CHECK(!read.has_value() || *read == *records);
  size_t damaged = 0;
  const Status verified =
      verify_shard(file, [&](const ShardRecord&, const std::string&) { ++damaged; });
  TERN_CHECK(records.has_value() || !verified.has_value());
  TERN_CHECK(damaged == 0 || damaged <= records->size());
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_shard)
