// What libarchive reads an archive from: a file, bytes in memory, or a member of another archive
// that comes unpacked piece by piece.
//
// Files are read by pread in windows, not mapped: a disk that fails or a file that is cut short
// while it is read is then an error with a name, not the end of the process. It costs nothing:
// members that nobody asks for are skipped, and after a skip the first window is one page.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// Used by one thread. A call blocks for one read.
class ArchiveInput {
 public:
  virtual ~ArchiveInput() = default;

  // The bytes that come next, valid until the next call; empty at the end.
  virtual Result<BytesView> next() = 0;

  // All below hold for inputs of which every byte can be reached; size() is -1 for others.
  virtual int64_t size() const { return -1; }
  // Where the input's first byte lies in the outermost file.
  virtual int64_t base() const { return 0; }
  virtual int64_t position() const { return 0; }
  // REQUIRES: 0 <= position <= size().
  virtual void seek(int64_t /*position*/) {}
  // Some bytes, to check something; fewer if they end or cannot be read.
  virtual Bytes peek(int64_t /*position*/, size_t /*bytes*/) const { return {}; }
  // A range of it as an input of its own. REQUIRES: it lies within size(); this outlives it.
  virtual std::unique_ptr<ArchiveInput> part(int64_t /*position*/, int64_t /*bytes*/) const {
    return nullptr;
  }
};

// [base, base + size) of an open file, which stays the caller's. `bytes_done`, if given, is kept at
// how far into the file it has come; `name` is for messages.
class FileInput final : public ArchiveInput {
 public:
  FileInput(int descriptor, std::string name, int64_t base, int64_t size, int64_t* bytes_done);

  Result<BytesView> next() override;
  int64_t size() const override { return size_; }
  int64_t base() const override { return base_; }
  int64_t position() const override { return position_; }
  void seek(int64_t position) override;
  Bytes peek(int64_t position, size_t bytes) const override;
  std::unique_ptr<ArchiveInput> part(int64_t position, int64_t bytes) const override;

 private:
  const int descriptor_;
  const std::string name_;
  const int64_t base_;
  const int64_t size_;
  int64_t* const bytes_done_;
  int64_t position_ = 0;
  size_t window_bytes_;
  std::vector<char> window_;
};

// Bytes that somebody else keeps.
class MemoryInput final : public ArchiveInput {
 public:
  MemoryInput(BytesView bytes, int64_t base) : bytes_(bytes), base_(base) {}

  Result<BytesView> next() override;
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  int64_t base() const override { return base_; }
  int64_t position() const override { return position_; }
  void seek(int64_t position) override { position_ = position; }
  Bytes peek(int64_t position, size_t bytes) const override;
  std::unique_ptr<ArchiveInput> part(int64_t position, int64_t bytes) const override;

 private:
  const BytesView bytes_;
  const int64_t base_;
  int64_t position_ = 0;
};

}  // namespace tern
