#include "import/archive_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tern {
namespace {

// After a skip, enough for a header; doubled while reading goes on without one.
constexpr size_t kFirstWindowBytes = size_t{1} << 12;
constexpr size_t kLargestWindowBytes = size_t{1} << 20;

ssize_t read_at(int descriptor, char* into, size_t bytes, int64_t offset) {
  ssize_t got = 0;
  do {
    got = pread(descriptor, into, bytes, offset);
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

FileInput::FileInput(int descriptor, std::string name, int64_t base, int64_t size,
                     int64_t* bytes_done)
    : descriptor_(descriptor),
      name_(std::move(name)),
      base_(base),
      size_(size),
      bytes_done_(bytes_done),
      window_bytes_(kFirstWindowBytes),
      window_(static_cast<size_t>(std::min(size, static_cast<int64_t>(kLargestWindowBytes)))) {}

Result<BytesView> FileInput::next() {
  const size_t left = static_cast<size_t>(size_ - position_);
  const size_t wanted = std::min({window_bytes_, window_.size(), left});
  if (wanted == 0) return BytesView();
  const ssize_t got = read_at(descriptor_, window_.data(), wanted, base_ + position_);
  if (got < 0) {
    return fail(Code::unavailable, fmt::format("cannot read {}: {}; check the disk it is on", name_,
                                               std::strerror(errno)));
  }
  if (got == 0) {
    return fail(Code::unavailable, fmt::format("{} became shorter while it was read; wait until it "
                                               "is written, then try again",
                                               name_));
  }
  position_ += got;
  if (bytes_done_ != nullptr) *bytes_done_ = base_ + position_;
  window_bytes_ = std::min(2 * window_bytes_, kLargestWindowBytes);
  return BytesView(window_.data(), static_cast<size_t>(got));
}

void FileInput::seek(int64_t position) {
  position_ = position;
  window_bytes_ = kFirstWindowBytes;
  if (bytes_done_ != nullptr) *bytes_done_ = base_ + position_;
}

Bytes FileInput::peek(int64_t position, size_t bytes) const {
  const int64_t end = std::min(size_, position + static_cast<int64_t>(bytes));
  if (position < 0 || position >= end) return {};
  Bytes found(static_cast<size_t>(end - position), '\0');
  const ssize_t got = read_at(descriptor_, found.data(), found.size(), base_ + position);
  found.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return found;
}

std::unique_ptr<ArchiveInput> FileInput::part(int64_t position, int64_t bytes) const {
  return std::make_unique<FileInput>(descriptor_, name_, base_ + position, bytes, bytes_done_);
}

Result<BytesView> MemoryInput::next() {
  const BytesView rest = bytes_.substr(static_cast<size_t>(position_));
  position_ = size();
  return rest;
}

Bytes MemoryInput::peek(int64_t position, size_t bytes) const {
  if (position < 0 || position >= size()) return {};
  return Bytes(bytes_.substr(static_cast<size_t>(position), bytes));
}

std::unique_ptr<ArchiveInput> MemoryInput::part(int64_t position, int64_t bytes) const {
  return std::make_unique<MemoryInput>(
      bytes_.substr(static_cast<size_t>(position), static_cast<size_t>(bytes)), base_ + position);
}

}  // namespace tern
