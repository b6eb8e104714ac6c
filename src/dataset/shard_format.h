// The fixed parts of a shard, as they lie in the file: docs/format_shard.md. For shard.cc,
// shard_verify.cc and shard_writer.cc.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "dataset/shard.h"

namespace tern {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie");

inline constexpr std::string_view kShardMagic = "TERNSHD1";
inline constexpr std::string_view kShardEndMagic = "TERNEND1";
inline constexpr uint32_t kShardVersion = 1;
inline constexpr uint32_t kShardRecordMagic = 0x44524352;  // "RCRD"
inline constexpr int64_t kShardAlignment = 8;
// How much is read or written at a time.
inline constexpr size_t kShardChunkBytes = size_t{1} << 20;

struct ShardHeader {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t zero = 0;
};
static_assert(sizeof(ShardHeader) == 16);

// In front of each record's name and payload.
struct ShardRecordHead {
  uint32_t magic = kShardRecordMagic;
  uint32_t length = 0;
  uint32_t crc32c = 0;
  uint32_t name_length = 0;
};
static_assert(sizeof(ShardRecordHead) == 16);

// In the index, in front of a record's three texts.
struct ShardIndexRow {
  uint64_t offset = 0;
  uint32_t length = 0;
  uint32_t crc32c = 0;
  uint16_t width = 0;
  uint16_t height = 0;
  uint8_t format = 0;
  uint8_t channels = 0;
  uint8_t orientation = 0;
  uint8_t flags = 0;
  uint16_t name_length = 0;
  uint16_t class_length = 0;
  uint16_t cause_length = 0;
  uint16_t zero = 0;
};
static_assert(sizeof(ShardIndexRow) == 32);

enum ShardFlag : uint8_t { kShardProgressive = 1, kShardTest = 2 };

struct ShardFooter {
  uint64_t index_offset = 0;
  uint64_t index_length = 0;
  uint32_t index_crc32c = 0;
  uint32_t records = 0;
  std::array<char, 8> magic{};
};
static_assert(sizeof(ShardFooter) == 32);

template <typename T>
BytesView shard_bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline ShardHeader shard_header() {
  ShardHeader header{.version = kShardVersion};
  kShardMagic.copy(header.magic.data(), header.magic.size());
  return header;
}

// Head and name: what stands in front of the payload.
Bytes shard_record_front(const ShardRecord& record);
// Zero bytes behind a payload that ends at `offset`.
inline int64_t shard_padding(int64_t offset) { return -offset & (kShardAlignment - 1); }

// What keeps a record from being in a shard; empty if nothing does. Of a record without its place:
// offset, length (but for raw pixels) and checksum are not looked at.
std::string shard_record_problem(const ShardRecord& record);

Error damaged_shard(const std::string& name, const std::string& what);

}  // namespace tern
