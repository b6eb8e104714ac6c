#include "ranks/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tern {
namespace {

constexpr size_t kLengthBytes = 4;

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

template <typename T>
void append(Bytes& bytes, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

template <typename T>
T load(BytesView bytes) {
  T value{};
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

FrameWriter::FrameWriter(Message message) : bytes_(kLengthBytes, '\0') {
  byte(static_cast<uint8_t>(message));
}

FrameWriter& FrameWriter::byte(uint8_t value) {
  append(bytes_, value);
  return *this;
}

FrameWriter& FrameWriter::number(int64_t value) {
  append(bytes_, value);
  return *this;
}

FrameWriter& FrameWriter::real(double value) {
  append(bytes_, value);
  return *this;
}

FrameWriter& FrameWriter::text(BytesView value) {
  append(bytes_, static_cast<uint32_t>(value.size()));
  bytes_.append(value);
  return *this;
}

Bytes FrameWriter::finish() {
  const auto length = static_cast<uint32_t>(bytes_.size() - kLengthBytes);
  std::memcpy(bytes_.data(), &length, kLengthBytes);
  return std::move(bytes_);
}

BytesView FieldReader::take(size_t count) {
  if (has_failed_ || count > rest_.size()) {
    has_failed_ = true;
    return {};
  }
  const BytesView taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

uint8_t FieldReader::byte() { return load<uint8_t>(take(1)); }
int64_t FieldReader::number() { return load<int64_t>(take(8)); }
double FieldReader::real() { return load<double>(take(8)); }

BytesView FieldReader::text(size_t limit) {
  const auto length = load<uint32_t>(take(4));
  if (length > limit) has_failed_ = true;
  return take(length);
}

Status FieldReader::finish() const {
  if (!has_failed_ && rest_.empty()) return {};
  return fail(Code::corrupt, "a message that is cut short, or too long");
}

Result<std::optional<Bytes>> FrameReader::next() {
  const BytesView rest = BytesView(bytes_).substr(used_);
  if (rest.size() < kLengthBytes) return std::optional<Bytes>();
  const size_t length = load<uint32_t>(rest.substr(0, kLengthBytes));
  if (length == 0 || length > limit_) {
    return fail(Code::corrupt,
                fmt::format("a message of {} bytes; 1 to {} are allowed", length, limit_));
  }
  if (rest.size() < kLengthBytes + length) {
    // What was used goes only now: moving the rest for each of many small frames would be slow.
    bytes_.erase(0, used_);
    used_ = 0;
    return std::optional<Bytes>();
  }
  std::optional<Bytes> frame(rest.substr(kLengthBytes, length));
  used_ += kLengthBytes + length;
  if (used_ == bytes_.size()) {
    bytes_.clear();
    used_ = 0;
  }
  return frame;
}

}  // namespace tern
