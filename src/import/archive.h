// Archives by libarchive: tar and zip, plain or through gzip, xz, zstd or bzip2, also one inside
// another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// One regular file of an archive. Valid until the visitor returns.
class ArchiveMember {
 public:
  virtual ~ArchiveMember() = default;
  // '/'-separated, relative, without "." or "..": what could leave a destination never gets here.
  virtual const std::string& name() const = 0;
  // What its header claims; -1 if the archive does not say.
  virtual int64_t size_bytes() const = 0;
  // Not empty: why its content cannot be had; read() and walk() are then `corrupt`.
  virtual std::string problem() const { return {}; }
  // Where its bytes lie unchanged in the archive's file; nothing if they are packed.
  virtual std::optional<int64_t> offset() = 0;
  // Its content. `exhausted` if it is more than bytes_max, before that memory is taken.
  virtual Result<Bytes> read(int64_t bytes_max) = 0;
  // Reads this member as an archive itself; offsets of its members are in the outermost file.
  virtual Status walk(const std::function<Status(ArchiveMember&)>& visit) = 0;
};

// Calls `visit` for every regular file, in the archive's order; symbolic links, devices and folders
// are passed over. A hard link is the file it names where that can be reached again, in a tar that
// is not compressed; elsewhere it has a problem(). An error of `visit` ends it and is returned.
// `corrupt` names the archive and the last member; a member whose path is absolute or has ".." is
// `corrupt` too. `bytes_done`, if given, is kept at how much of the file has been read.
Status walk_archive(const std::filesystem::path& file, int64_t* bytes_done,
                    const std::function<Status(ArchiveMember&)>& visit);
// The same of bytes in memory.
Status walk_archive_bytes(BytesView bytes, const std::string& name,
                          const std::function<Status(ArchiveMember&)>& visit);

// By its name or first bytes; looks, never fails.
bool looks_like_archive(const std::filesystem::path& file);

}  // namespace tern
