// A folder on a disk and what an archive holds, seen the same way: files by their relative names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/result.h"
#include "import/archive.h"
#include "import/source.h"

namespace tern {

// One file. Valid until the visitor returns.
class WalkedFile {
 public:
  virtual ~WalkedFile() = default;
  // '/'-separated, relative, without "." or "..".
  virtual const std::string& name() const = 0;
  // -1 if an archive does not say.
  virtual int64_t size_bytes() const = 0;
  // Where its bytes lie unchanged; nothing if they are packed, or if there are none.
  virtual std::optional<FileRange> range() = 0;
  // Not empty: why it can be no sample. Its name is then escaped where it has control characters.
  virtual std::string problem() const { return {}; }
  // `exhausted` if it is more than bytes_max; `corrupt` if it has a problem.
  virtual Result<Bytes> read(int64_t bytes_max) = 0;
};

// A member of an archive as such a file. `archive` is the file's name relative to the source's
// root.
class FileOfArchive final : public WalkedFile {
 public:
  FileOfArchive(std::string_view archive, ArchiveMember& member)
      : archive_(archive), member_(member) {}

  const std::string& name() const override { return member_.name(); }
  int64_t size_bytes() const override { return member_.size_bytes(); }
  std::optional<FileRange> range() override;
  std::string problem() const override { return member_.problem(); }
  Result<Bytes> read(int64_t bytes_max) override { return member_.read(bytes_max); }

 private:
  const std::string archive_;
  ArchiveMember& member_;
};

// One thread at a time; walk() blocks for reading.
class FileWalk {
 public:
  virtual ~FileWalk() = default;

  // The folder or the archive, for messages.
  virtual std::string where() const = 0;
  // What FileRange::file is relative to.
  virtual std::string root() const = 0;
  // Every regular file in an order that is the same every time: a folder's by the bytes of their
  // names, an archive's as they lie in it. Hidden files and __MACOSX are left out. Links to files
  // are followed, links to folders are not: they could lead out, or round.
  virtual Status walk(const std::function<Status(WalkedFile&)>& visit) = 0;
  // How much there is to walk through: known after a first walk(); and how far the last one is.
  virtual int64_t total_bytes() const = 0;
  virtual int64_t bytes_done() const = 0;
  // Of the files that the last walk() went through (FilesVersion).
  virtual std::string version() const = 0;
  // Links to folders that the last walk() did not follow.
  virtual int64_t links_left_out() const { return 0; }
};

// REQUIRES: absolute paths.
std::unique_ptr<FileWalk> walk_files_of_folder(std::filesystem::path folder);
std::unique_ptr<FileWalk> walk_files_of_archive(std::filesystem::path archive);

}  // namespace tern
