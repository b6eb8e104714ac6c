#include "import/file_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "dataset/read_file.h"
#include "import/files_version.h"
#include "import/member_path.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<Status(WalkedFile&)>;

class FileOfFolder final : public WalkedFile {
 public:
  FileOfFolder(const fs::path& root, std::string name, int64_t size)
      : root_(root), name_(std::move(name)), size_(size) {}

  const std::string& name() const override { return name_; }
  int64_t size_bytes() const override { return size_; }
  std::optional<FileRange> range() override {
    if (size_ == 0) return {};
    return FileRange{name_, 0, size_};
  }
  Result<Bytes> read(int64_t bytes_max) override {
    return read_data_file((root_ / name_).string(), bytes_max);
  }

 private:
  const fs::path& root_;
  const std::string name_;
  const int64_t size_;
};

Error folder_error(const fs::path& path, const std::error_code& error) {
  if (error == std::errc::permission_denied) {
    return fail(Code::permission_denied,
                fmt::format("may not read {}; make it readable for this user",
                            printable_path(path.string())));
  }
  return fail(Code::unavailable, fmt::format("cannot read {}: {}; check the disk it is on",
                                             printable_path(path.string()), error.message()));
}

// A file that is there but has a name that no list can show.
class OddFile final : public WalkedFile {
 public:
  OddFile(std::string_view name, int64_t size) : name_(escaped_path(name)), size_(size) {}

  const std::string& name() const override { return name_; }
  int64_t size_bytes() const override { return size_; }
  std::optional<FileRange> range() override { return {}; }
  std::string problem() const override {
    return "its name has control characters; give it another one";
  }
  Result<Bytes> read(int64_t) override { return fail(Code::corrupt, name_ + ": " + problem()); }

 private:
  const std::string name_;
  const int64_t size_;
};

class FolderWalk final : public FileWalk {
 public:
  explicit FolderWalk(fs::path folder) : folder_(std::move(folder)) {}

  std::string where() const override { return folder_.string(); }
  std::string root() const override { return folder_.string(); }
  int64_t total_bytes() const override { return total_bytes_; }
  int64_t bytes_done() const override { return bytes_done_; }
  std::string version() const override { return version_; }
  int64_t links_left_out() const override { return links_left_out_; }

  Status walk(const Visit& visit) override {
    bytes_done_ = links_left_out_ = 0;
    FilesVersion version;
    RETURN_IF_ERROR(walk_below("", version, visit));
    version_ = version.finish();
    total_bytes_ = bytes_done_;
    return {};
  }

 private:
  struct Child {
    std::string key;  // its name, a folder's with '/': so whole paths come in the order of bytes
    FileStamp stamp;
  };

  Result<std::vector<Child>> children(const std::string& below);
  Status visit_file(const std::string& name, int64_t size, bool is_odd, const Visit& visit) const;
  Status walk_below(const std::string& below, FilesVersion& version, const Visit& visit);

  const fs::path folder_;
  std::string version_;
  int64_t total_bytes_ = 0;
  int64_t bytes_done_ = 0;
  int64_t links_left_out_ = 0;
};

Result<std::vector<FolderWalk::Child>> FolderWalk::children(const std::string& below) {
  const fs::path path = folder_ / below;
  std::vector<Child> found;
  std::error_code error;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (is_hidden_path(name)) continue;
    std::error_code gone;  // a link that leads nowhere is no file
    if (it->is_directory(gone)) {
      if (it->is_symlink(gone)) {
        ++links_left_out_;
      } else {
        found.push_back({name + "/"});
      }
    } else if (it->is_regular_file(gone)) {
      const std::optional<FileStamp> stamp = FileStamp::of(it->path());
      if (!stamp) return folder_error(it->path(), std::error_code(errno, std::generic_category()));
      found.push_back({name, *stamp});
    }
  }
  if (error) return folder_error(path, error);
  std::sort(found.begin(), found.end(),
            [](const Child& a, const Child& b) { return a.key < b.key; });
  return found;
}

Status FolderWalk::walk_below(const std::string& below, FilesVersion& version, const Visit& visit) {
  ASSIGN_OR_RETURN(const std::vector<Child> found, children(below));
  for (const Child& child : found) {
    const std::string name = below + child.key;
    const bool is_odd = has_control_characters(name);
    // Also the bound on how deep this goes.
    Result<std::string> clean = clean_member_path(is_odd ? escaped_path(name) : name);
    if (!clean) return clean.error().at(folder_.string());
    if (child.key.ends_with('/')) {
      RETURN_IF_ERROR(walk_below(name, version, visit));
      continue;
    }
    bytes_done_ += child.stamp.size_bytes;
    version.add(name, child.stamp);
    RETURN_IF_ERROR(visit_file(name, child.stamp.size_bytes, is_odd, visit));
  }
  return {};
}

Status FolderWalk::visit_file(const std::string& name, int64_t size, bool is_odd,
                              const Visit& visit) const {
  if (is_odd) {
    OddFile file(name, size);
    return visit(file);
  }
  FileOfFolder file(folder_, name, size);
  return visit(file);
}

class ArchiveFileWalk final : public FileWalk {
 public:
  explicit ArchiveFileWalk(fs::path archive)
      : archive_(std::move(archive)),
        name_(archive_.filename().string()),
        total_bytes_(FileStamp::of(archive_).value_or(FileStamp()).size_bytes) {
    FilesVersion version;
    version.add(archive_);
    version_ = version.finish();
  }

  std::string where() const override { return archive_.string(); }
  std::string root() const override { return archive_.parent_path().string(); }
  std::string version() const override { return version_; }
  int64_t total_bytes() const override { return total_bytes_; }
  int64_t bytes_done() const override { return bytes_done_; }

  Status walk(const Visit& visit) override {
    bytes_done_ = 0;
    return walk_archive(archive_, &bytes_done_, [&](ArchiveMember& member) -> Status {
      if (is_hidden_path(member.name())) return {};
      FileOfArchive file(name_, member);
      return visit(file);
    });
  }

 private:
  const fs::path archive_;
  const std::string name_;
  const int64_t total_bytes_;
  std::string version_;
  int64_t bytes_done_ = 0;
};

}  // namespace

std::optional<FileRange> FileOfArchive::range() {
  const std::optional<int64_t> offset = member_.offset();
  if (!offset) return {};
  return FileRange{archive_, *offset, member_.size_bytes()};
}

std::unique_ptr<FileWalk> walk_files_of_folder(fs::path folder) {
  return std::make_unique<FolderWalk>(std::move(folder));
}

std::unique_ptr<FileWalk> walk_files_of_archive(fs::path archive) {
  return std::make_unique<ArchiveFileWalk>(std::move(archive));
}

}  // namespace tern
