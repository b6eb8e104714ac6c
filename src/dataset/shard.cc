#include "dataset/shard.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "core/crc32c.h"
#include "dataset/shard_format.h"

namespace tern {
namespace {

constexpr int64_t kFooterBytes = sizeof(ShardFooter);

// Takes the parts of an index one by one; never past its end.
class Cursor {
 public:
  explicit Cursor(BytesView bytes) : rest_(bytes) {}

  template <typename T>
  bool take(T& value) {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool take(std::string& text, size_t length) {
    if (rest_.size() < length) return false;
    text.assign(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return true;
  }
  size_t left() const { return rest_.size(); }

 private:
  BytesView rest_;
};

// False if the index ends within the record.
bool take_record(Cursor& cursor, ShardIndexRow& row, ShardRecord& record) {
  if (!cursor.take(row) || !cursor.take(record.name, row.name_length) ||
      !cursor.take(record.class_name, row.class_length) ||
      !cursor.take(record.bad_cause, row.cause_length)) {
    return false;
  }
  record.split = (row.flags & kShardTest) != 0 ? Split::test : Split::train;
  record.info = {.format = static_cast<ImageFormat>(row.format),
                 .size = {.width = row.width, .height = row.height},
                 .channels = row.channels,
                 .orientation = row.orientation,
                 .is_progressive = (row.flags & kShardProgressive) != 0};
  record.offset = row.offset;
  record.length = row.length;
  record.crc32c = row.crc32c;
  return true;
}

// `at` is where the next record begins, and is moved behind this one; records must lie one behind
// the other, so that every byte of the file belongs to something that is checked.
std::string place_problem(const ShardIndexRow& row, const ShardRecord& record, int64_t end,
                          int64_t& at) {
  if (row.zero != 0 || row.flags > (kShardProgressive | kShardTest)) return "unknown flags";
  if (!record.bad_cause.empty()) {
    return row.offset == 0 && row.length == 0 && row.crc32c == 0 ? ""
                                                                 : "a bad sample with a payload";
  }
  // Neither sum can overflow: `at` is at most `end`, a file's size, and the rest has 32 bits.
  const int64_t offset = at + int64_t{sizeof(ShardRecordHead)} + row.name_length;
  const int64_t payload_end = offset + row.length;
  if (row.offset != static_cast<uint64_t>(offset) || payload_end > end) {
    return fmt::format("its {} bytes at {} are not where they must be", row.length, row.offset);
  }
  at = payload_end + shard_padding(payload_end);
  return {};
}

Result<std::vector<ShardRecord>> parse_records(BytesView index, const ShardFooter& footer,
                                               const std::string& name) {
  Cursor cursor(index);
  uint64_t count = 0;
  if (!cursor.take(count) || count != footer.records ||
      count > cursor.left() / sizeof(ShardIndexRow)) {
    return damaged_shard(name, "the index: its count of records is wrong");
  }
  std::vector<ShardRecord> records(count);
  const int64_t end = static_cast<int64_t>(footer.index_offset);
  int64_t at = sizeof(ShardHeader);
  for (size_t i = 0; i < count; ++i) {
    ShardIndexRow row;
    if (!take_record(cursor, row, records[i])) {
      return damaged_shard(name, fmt::format("the index: it ends within record {}", i));
    }
    std::string problem = shard_record_problem(records[i]);
    if (problem.empty()) problem = place_problem(row, records[i], end, at);
    if (!problem.empty()) {
      return damaged_shard(
          name, fmt::format("the index: record {} ({}): {}", i, records[i].name, problem));
    }
  }
  if (cursor.left() != 0) return damaged_shard(name, "the index: there are bytes behind it");
  if (at != end) return damaged_shard(name, "the index: it does not begin behind the last record");
  return records;
}

std::string image_problem(const ShardRecord& record) {
  const ImageInfo& info = record.info;
  const bool sides_fit = info.size.width >= 1 && info.size.height >= 1 &&
                         info.size.width <= kImageSideMax && info.size.height <= kImageSideMax;
  if (!sides_fit || info.size.pixels() > kImagePixelsMax) {
    return fmt::format("a size of {}x{} pixels", info.size.width, info.size.height);
  }
  if (info.format > ImageFormat::png) {
    return fmt::format("format {} is not known", static_cast<int>(info.format));
  }
  if (info.channels != 1 && info.channels != 3) return fmt::format("{} channels", info.channels);
  if (info.orientation < 1 || info.orientation > 8) {
    return fmt::format("orientation {}", info.orientation);
  }
  if (info.format == ImageFormat::raw && record.length != info.size.pixels() * info.channels) {
    return fmt::format("{} bytes of raw pixels for {}x{}x{}", record.length, info.channels,
                       info.size.width, info.size.height);
  }
  return {};
}

}  // namespace

Bytes shard_record_front(const ShardRecord& record) {
  const ShardRecordHead head{.length = record.length,
                             .crc32c = record.crc32c,
                             .name_length = static_cast<uint32_t>(record.name.size())};
  return Bytes(shard_bytes_of(head)).append(record.name);
}

std::string shard_record_problem(const ShardRecord& record) {
  constexpr size_t kTextMax = std::numeric_limits<uint16_t>::max();
  if (record.name.empty()) return "it has no name";
  if (record.name.size() > kTextMax || record.class_name.size() > kTextMax ||
      record.bad_cause.size() > kTextMax) {
    return fmt::format("its name, class or cause is longer than {} bytes", kTextMax);
  }
  if (record.bad_cause.empty()) return image_problem(record);
  return record.info == ImageInfo{} ? "" : "a bad sample that says something of its image";
}

Error damaged_shard(const std::string& name, const std::string& what) {
  return fail(
      Code::corrupt,
      fmt::format("{} is damaged: {}; copy it again, or remove it and import again", name, what));
}

Result<std::vector<ShardRecord>> read_shard_index(const ShardBytes& shard) {
  const std::string& name = shard.name;
  const int64_t file_bytes = shard.size_bytes;
  if (file_bytes < int64_t{sizeof(ShardHeader)} + kFooterBytes) {
    return damaged_shard(name, fmt::format("it ends after {} bytes", file_bytes));
  }
  ASSIGN_OR_RETURN(const Bytes footer_bytes, shard.read(file_bytes - kFooterBytes, kFooterBytes));
  ShardFooter footer;
  if (footer_bytes.size() != sizeof footer) return damaged_shard(name, "it ends too early");
  std::memcpy(&footer, footer_bytes.data(), sizeof footer);
  if (BytesView(footer.magic.data(), footer.magic.size()) != kShardEndMagic) {
    return damaged_shard(name, "the index: its footer is not at the end of the file");
  }
  const uint64_t footer_at = static_cast<uint64_t>(file_bytes - kFooterBytes);
  if (footer.index_offset < sizeof(ShardHeader) || footer.index_offset > footer_at ||
      footer.index_length != footer_at - footer.index_offset) {
    return damaged_shard(name, "the index: its footer says that it lies elsewhere");
  }
  ASSIGN_OR_RETURN(const Bytes index, shard.read(static_cast<int64_t>(footer.index_offset),
                                                 static_cast<int64_t>(footer.index_length)));
  if (index.size() != footer.index_length) return damaged_shard(name, "it ends too early");
  if (crc32c(index) != footer.index_crc32c) return damaged_shard(name, "the index does not verify");
  return parse_records(index, footer, name);
}

Result<std::vector<ShardRecord>> read_shard_index(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const ShardBytes shard, open_shard(file));
  return read_shard_index(shard);
}

Result<std::vector<ShardRecord>> parse_shard(BytesView bytes, const std::string& name) {
  return read_shard_index(
      {.name = name,
       .size_bytes = static_cast<int64_t>(bytes.size()),
       .read = [bytes](int64_t offset, int64_t length) -> Result<Bytes> {
         return Bytes(bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(length)));
       }});
}

}  // namespace tern
