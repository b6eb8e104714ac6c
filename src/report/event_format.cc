#include "report/event_format.h"

#include <bit>

#include "core/crc32c.h"

namespace tern {
namespace {

// Field numbers of TensorFlow's event.proto and summary.proto.
constexpr uint32_t kEventWallTime = 1;
constexpr uint32_t kEventStep = 2;
constexpr uint32_t kEventFileVersion = 3;
constexpr uint32_t kEventSummary = 5;
constexpr uint32_t kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1;
constexpr uint32_t kValueSimpleValue = 2;
constexpr uint32_t kSessionLogStatus = 1;
constexpr uint64_t kSessionStart = 1;
constexpr char kFileVersion[] = "brain.Event:2";

// Protobuf's wire types.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kLengthDelimited = 2;
constexpr uint32_t kFixed32 = 5;

void put_varint(Bytes& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7F));
  out += static_cast<char>(value);
}

void put_key(Bytes& out, uint32_t field, uint32_t wire_type) {
  put_varint(out, (field << 3) | wire_type);
}

template <typename Unsigned>
void put_little_endian(Bytes& out, Unsigned value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

void put_bytes(Bytes& out, uint32_t field, BytesView bytes) {
  put_key(out, field, kLengthDelimited);
  put_varint(out, bytes.size());
  out += bytes;
}

// An event without its content.
Bytes event_at(int64_t unix_ms, int64_t step) {
  Bytes event;
  put_key(event, kEventWallTime, kFixed64);
  put_little_endian(event, std::bit_cast<uint64_t>(static_cast<double>(unix_ms) / 1000.0));
  put_key(event, kEventStep, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  return event;
}

// TFRecord does not store a checksum as it is, so that one of bytes with checksums in them is one.
uint32_t masked_crc32c(BytesView bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

Bytes framed(const Bytes& event) {
  Bytes record;
  record.reserve(event.size() + 16);
  put_little_endian(record, static_cast<uint64_t>(event.size()));
  put_little_endian(record, masked_crc32c(record));
  record += event;
  put_little_endian(record, masked_crc32c(event));
  return record;
}

}  // namespace

Bytes version_record(int64_t unix_ms) {
  Bytes event = event_at(unix_ms, 0);
  put_bytes(event, kEventFileVersion, kFileVersion);
  return framed(event);
}

Bytes restart_record(int64_t unix_ms, int64_t step) {
  Bytes log;
  put_key(log, kSessionLogStatus, kVarint);
  put_varint(log, kSessionStart);
  Bytes event = event_at(unix_ms, step);
  put_bytes(event, kEventSessionLog, log);
  return framed(event);
}

Bytes scalars_record(int64_t unix_ms, int64_t step, const std::vector<Scalar>& scalars) {
  Bytes summary;
  for (const Scalar& scalar : scalars) {
    Bytes value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimpleValue, kFixed32);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, kSummaryValue, value);
  }
  Bytes event = event_at(unix_ms, step);
  put_bytes(event, kEventSummary, summary);
  return framed(event);
}

}  // namespace tern
