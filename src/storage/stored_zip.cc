#include "storage/stored_zip.h"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace tern {
namespace {

// PKWARE's APPNOTE names the fields; all numbers are little-endian.
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kEnd64PlaceMagic = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                   kEnd64PlaceBytes = 20;
constexpr uint64_t kCommentBytesMax = 0xffff;
constexpr uint64_t kSeeZip64 = 0xffffffff;
constexpr uint64_t kZip64Extra = 1;
constexpr uint64_t kEncryptedFlag = 1;
// A state dict has a member a tensor.
constexpr uint64_t kMembersMax = 1'000'000;

Error damaged(std::string_view reason) {
  return fail(Code::corrupt, fmt::format("no whole file of torch.save(): {}", reason));
}

// REQUIRES: the field lies within the bytes.
uint64_t number_at(BytesView bytes, uint64_t offset, size_t width) {
  uint64_t number = 0;
  for (size_t i = 0; i < width; ++i) {
    number |= uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return number;
}

bool has(BytesView bytes, uint64_t offset, uint64_t length) {
  return offset <= bytes.size() && length <= bytes.size() - offset;
}

struct Directory {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t members = 0;
};

// The end of a zip file says where its directory is; a comment may follow it.
Result<Directory> find_directory(BytesView file) {
  if (file.size() < kEndBytes) return damaged("it is too short");
  const uint64_t last = file.size() - kEndBytes;
  const uint64_t first = last > kCommentBytesMax ? last - kCommentBytesMax : 0;
  for (uint64_t end = last + 1; end-- > first;) {
    if (number_at(file, end, 4) != kEndMagic) continue;
    Directory found{.offset = number_at(file, end + 16, 4),
                    .length = number_at(file, end + 12, 4),
                    .members = number_at(file, end + 10, 2)};
    if (end < kEnd64PlaceBytes || number_at(file, end - kEnd64PlaceBytes, 4) != kEnd64PlaceMagic) {
      return found;
    }
    const uint64_t end64 = number_at(file, end - kEnd64PlaceBytes + 8, 8);
    if (!has(file, end64, kEnd64Bytes) || number_at(file, end64, 4) != kEnd64Magic) {
      return damaged("the end of its directory is not where it says");
    }
    return Directory{.offset = number_at(file, end64 + 48, 8),
                     .length = number_at(file, end64 + 40, 8),
                     .members = number_at(file, end64 + 32, 8)};
  }
  return damaged("it has no directory at its end; it may be cut short");
}

struct Entry {
  std::string name;
  uint64_t offset = 0;  // of the local header
  uint64_t length = 0;
  uint32_t crc32 = 0;
};

// Numbers that do not fit in 32 bits are in an extra field, in this order, those alone.
Status read_zip64(BytesView extra, Entry& entry, uint64_t& stored) {
  while (extra.size() >= 4) {
    const uint64_t kind = number_at(extra, 0, 2);
    const uint64_t length = number_at(extra, 2, 2);
    if (!has(extra, 4, length)) break;
    BytesView field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (kind != kZip64Extra) continue;
    for (uint64_t* number : {&entry.length, &stored, &entry.offset}) {
      if (*number != kSeeZip64 || field.size() < 8) continue;
      *number = number_at(field, 0, 8);
      field.remove_prefix(8);
    }
  }
  if (entry.length != stored) return damaged(fmt::format("'{}' has two sizes", entry.name));
  return {};
}

// Takes one entry off the directory.
Result<Entry> take_entry(BytesView& directory) {
  if (!has(directory, 0, kEntryBytes) || number_at(directory, 0, 4) != kEntryMagic) {
    return damaged("its directory is cut short");
  }
  const uint64_t name_bytes = number_at(directory, 28, 2);
  const uint64_t extra_bytes = number_at(directory, 30, 2);
  const uint64_t whole = kEntryBytes + name_bytes + extra_bytes + number_at(directory, 32, 2);
  if (!has(directory, 0, whole)) return damaged("its directory is cut short");
  Entry entry{.name = std::string(directory.substr(kEntryBytes, name_bytes)),
              .offset = number_at(directory, 42, 4),
              .length = number_at(directory, 24, 4),
              .crc32 = static_cast<uint32_t>(number_at(directory, 16, 4))};
  if (number_at(directory, 10, 2) != 0 || (number_at(directory, 8, 2) & kEncryptedFlag) != 0) {
    return damaged(
        fmt::format("'{}' is compressed or encrypted, which torch.save() never does", entry.name));
  }
  uint64_t stored = number_at(directory, 20, 4);
  RETURN_IF_ERROR(
      read_zip64(directory.substr(kEntryBytes + name_bytes, extra_bytes), entry, stored));
  directory.remove_prefix(whole);
  return entry;
}

constexpr std::array<uint32_t, 256> make_crc32_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
    table[i] = crc;
  }
  return table;
}

// Zip's, which is not core's CRC-32C.
uint32_t crc32_of(BytesView bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc32_table();
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

Result<BytesView> data_of(BytesView file, const Entry& entry) {
  const auto bad = [&entry](std::string_view reason) {
    return damaged(fmt::format("'{}' {}", entry.name, reason));
  };
  if (!has(file, entry.offset, kLocalBytes) || number_at(file, entry.offset, 4) != kLocalMagic) {
    return bad("is not where the directory says");
  }
  const uint64_t begin = entry.offset + kLocalBytes + number_at(file, entry.offset + 26, 2) +
                         number_at(file, entry.offset + 28, 2);
  if (!has(file, begin, entry.length)) return bad("ends after the file does");
  const BytesView data = file.substr(begin, entry.length);
  // 0 is what torch.serialization.set_crc32_options(False) leaves.
  if (entry.crc32 != 0 && crc32_of(data) != entry.crc32) return bad("fails its checksum");
  return data;
}

}  // namespace

Result<ZipMembers> parse_stored_zip(BytesView file) {
  ASSIGN_OR_RETURN(const Directory directory, find_directory(file));
  if (!has(file, directory.offset, directory.length) || directory.members > kMembersMax) {
    return damaged("its directory is not where it says");
  }
  BytesView rest = file.substr(directory.offset, directory.length);
  ZipMembers members;
  uint64_t total = 0;
  for (uint64_t i = 0; i < directory.members; ++i) {
    ASSIGN_OR_RETURN(Entry entry, take_entry(rest));
    // Members that lie in each other would make reading it take much longer than its size says.
    if (entry.length > file.size() - total) return damaged("its members overlap");
    total += entry.length;
    ASSIGN_OR_RETURN(const BytesView data, data_of(file, entry));
    if (!members.emplace(entry.name, data).second) {
      return damaged(fmt::format("'{}' is in it twice", entry.name));
    }
  }
  return members;
}

}  // namespace tern
