// What has arrived of a download: FILE.part, and in FILE.part.etag the version it is a part of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "core/bytes.h"
#include "core/hash.h"
#include "core/result.h"

namespace tern {

// Owned by one download and used by its thread; another process that opens the same part is
// refused (flock) until this one ends. Every call may block for the disk. A kill at any instant
// leaves a part that belongs to the version beside it, or one that no version is known of.
class PartFile {
 public:
  // Opens FILE.part, or makes an empty one. `sha256`: what the whole must have; empty: not checked.
  // What is there is hashed first; `stop` ends that with `cancelled`.
  static Result<std::unique_ptr<PartFile>> open(const std::filesystem::path& file,
                                                const std::string& sha256, std::stop_token stop);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  // An ETag or a date; empty if none is known.
  const std::string& version() const { return version_; }
  // Only a part of a known version, or one that the hash will judge, may be gone on with.
  bool can_go_on() const { return size_bytes_ > 0 && (!version_.empty() || hash_ != nullptr); }

  // Empties the part, which then belongs to `version`.
  Status restart(const std::string& version);
  Status append(BytesView bytes);
  // Checks the hash, then gives the part its name, durably. `corrupt`: the part is removed.
  Status finish();
  // Removes both files.
  void discard();

 private:
  PartFile(const std::filesystem::path& file, std::string sha256);
  Status open_and_lock();
  Status read_back(std::stop_token stop);
  Error error(const char* verb, int error_number) const;

  // Constant after open().
  const std::filesystem::path file_;
  const std::filesystem::path part_;
  const std::filesystem::path version_file_;
  const std::string sha256_;
  int fd_ = -1;

  int64_t size_bytes_ = 0;
  std::string version_;
  std::unique_ptr<Sha256> hash_;  // of what is in the part; null if nothing is to be checked
};

}  // namespace tern
