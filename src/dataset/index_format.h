// The fixed parts of an index, as they lie in the file: docs/format_index.md. For index.cc and
// index_write.cc.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/index.h"

namespace tern {

static_assert(std::endian::native == std::endian::little, "an index is used as it lies");

inline constexpr std::string_view kIndexMagic = "TERNSET1";
inline constexpr uint32_t kIndexVersion = 1;

struct IndexSection {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t crc32c = 0;
  uint32_t zero = 0;
};

// In the order they lie in the file.
enum IndexSectionNumber : size_t { kEntries, kFiles, kNames, kAbout, kIndexSections };

struct IndexHeader {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t crc32c = 0;  // of what follows in the header
  std::array<uint8_t, 32> id{};
  uint64_t file_bytes = 0;
  uint64_t samples = 0;
  uint64_t train_samples = 0;
  uint64_t files = 0;
  std::array<IndexSection, kIndexSections> sections{};
};
static_assert(sizeof(IndexHeader) == 176);
inline constexpr size_t kIndexCheckedFrom = 16;  // where what IndexHeader::crc32c covers begins

struct IndexFileRow {
  uint64_t name = 0;  // where its path begins in the names
  uint64_t size_bytes = 0;
};
static_assert(sizeof(IndexFileRow) == 16);

// Sections begin at multiples of 8. REQUIRES: `offset` is far from the largest number.
constexpr uint64_t aligned8(uint64_t offset) { return (offset + 7) / 8 * 8; }

// About as JSON. Text that is not UTF-8 has its bad bytes replaced by U+FFFD.
// REQUIRES: mean and stddev are finite.
std::string format_about(const About& about);
// One text as format_about() keeps it.
std::string as_utf8(const std::string& text);
// `corrupt` says what is wrong, without the file's name.
Result<About> parse_about(BytesView json);

}  // namespace tern
