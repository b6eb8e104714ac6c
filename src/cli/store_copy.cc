#include "cli/store_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <thread>

#include "core/mutex.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

Error name_is_taken(const std::string& name) {
  return fail(Code::already_exists, fmt::format("{} is there already; --force replaces it", name));
}

// A file that has no name until it is whole, so that no kill leaves a part of it. Where the file
// system has no such files it has another name, which is removed unless it is finished.
class NewFile {
 public:
  static Result<std::unique_ptr<NewFile>> open(const fs::path& path) {
    RealFileDoor door;
    ASSIGN_OR_RETURN(const std::vector<fs::path> made, door.make_folders(path.parent_path()));
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    FileDescriptor fd(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
    if (fd.is_open()) return std::unique_ptr<NewFile>(new NewFile(path, std::move(fd), {}));
    fs::path part = path;
    part += fmt::format(".part-{}", ::getpid());
    FileDescriptor named(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!named.is_open()) return file_error("write", part, errno);
    return std::unique_ptr<NewFile>(new NewFile(path, std::move(named), part));
  }
  ~NewFile() {
    if (!part_.empty()) ::unlink(part_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_.get(); }

  Status finish(Existing existing) {
    if (::fdatasync(fd_.get()) != 0) return file_error("write", path_, errno);
    if (part_.empty()) return link_nameless(existing);
    if (existing == Existing::refuse) return give_name(part_, path_);
    return rename_over(part_);
  }

 private:
  NewFile(fs::path path, FileDescriptor fd, fs::path part)
      : path_(std::move(path)), fd_(std::move(fd)), part_(std::move(part)) {}

  static Status give_name(const fs::path& from, const fs::path& to) {
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
    if (errno == EEXIST) return name_is_taken(to.string());
    return file_error("write", to, errno);
  }

  Status rename_over(const fs::path& from) {
    if (::rename(from.c_str(), path_.c_str()) == 0) return {};
    return file_error("write", path_, errno);
  }

  Status link_nameless(Existing existing) {
    const fs::path self = fmt::format("/proc/self/fd/{}", fd_.get());
    if (existing == Existing::refuse) return give_name(self, path_);
    // link(2) replaces nothing, so it takes a second name for a moment.
    part_ = path_;
    part_ += fmt::format(".part-{}", ::getpid());
    RETURN_IF_ERROR(give_name(self, part_));
    return rename_over(part_);
  }

  const fs::path path_;
  const FileDescriptor fd_;
  fs::path part_;  // empty: it has no name yet
};

Status copy_to_file(const CopySetup& setup, const CopyItem& item, const fs::path& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, NewFile::open(path));
  RETURN_IF_ERROR(
      download(*setup.from, item.from, file->fd(), setup.move, setup.stop, setup.on_bytes));
  return file->finish(setup.existing);
}

Status copy_to_bucket(const CopySetup& setup, const CopyItem& item) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectBytes> bytes,
                   ObjectBytes::open(*setup.from, item.from, setup.move, setup.stop));
  const Status written = setup.existing == Existing::replace
                             ? setup.to->put(item.to, bytes->view())
                             : setup.to->create(item.to, bytes->view());
  if (!written && written.error().code == Code::already_exists) return name_is_taken(item.to);
  RETURN_IF_ERROR(written);
  ASSIGN_OR_RETURN(const ObjectInfo there, setup.to->stat(item.to));
  if (there.size_bytes != static_cast<int64_t>(bytes->view().size())) {
    return fail(Code::corrupt, fmt::format("{} was written with {} bytes and has {}; copy it again",
                                           item.to, bytes->view().size(), there.size_bytes));
  }
  if (setup.on_bytes) setup.on_bytes(there.size_bytes);
  return {};
}

// With at most `parts` of it on their way.
Status copy_by(const CopySetup& setup, const CopyItem& item, int64_t parts) {
  if (setup.copy_one) return setup.copy_one(item);
  CopySetup own = setup;
  own.move.in_flight_max = parts;
  return copy_object(own, item);
}

// How many parts of one file are written at once where several files are copied: its writers wait
// for each other, those of two files do not. More than one, so that the last files are not slow.
constexpr int64_t kWritersOfAFile = 2;

// Hands out items in their order, to as many threads as want them, so that never more than
// in_flight_max parts are on their way.
class Turns {
 public:
  Turns(const CopySetup& setup, std::span<const CopyItem> items)
      : setup_(setup), items_(items), share_(fair_share()) {}

  // The next, once there is room for its parts; null if there is none, after a failure, or a stop.
  const CopyItem* take() {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this] {
      mutex_.assert_held();
      return is_over() || parts_ == 0 || parts_ + parts_of(items_[next_]) <= limit();
    });
    if (is_over()) return nullptr;
    parts_ += parts_of(items_[next_]);
    return &items_[next_++];
  }

  void end(const CopyItem& item, const Status& copied) {
    MutexLock lock(mutex_);
    parts_ -= parts_of(item);
    if (first_ && !copied) first_ = copied;
    changed_.notify_all();
  }

  Status first_failure() {
    MutexLock lock(mutex_);
    return first_;
  }

  // Of one that has more than its share, its share.
  int64_t parts_of(const CopyItem& item) const {
    const int64_t part = setup_.move.part_bytes;
    return std::clamp<int64_t>((item.from.size_bytes + part - 1) / part, 1, share_);
  }

 private:
  int64_t limit() const { return setup_.move.in_flight_max; }
  int64_t fair_share() const {
    const bool to_files = !items_.empty() && setup_.to->local_path(items_[0].to).has_value();
    if (!to_files) return limit();
    const auto larger = std::ranges::count_if(items_, [this](const CopyItem& item) {
      return item.from.size_bytes > setup_.move.part_bytes;
    });
    return std::clamp<int64_t>(limit() / std::max<int64_t>(larger, 1),
                               std::min(kWritersOfAFile, limit()), limit());
  }
  bool is_over() const REQUIRES(mutex_) {
    return next_ == items_.size() || !first_ || setup_.stop.stop_requested();
  }

  const CopySetup& setup_;
  const std::span<const CopyItem> items_;
  const int64_t share_;
  Mutex mutex_;
  ConditionVariable changed_;
  size_t next_ GUARDED_BY(mutex_) = 0;
  int64_t parts_ GUARDED_BY(mutex_) = 0;  // of the items that are being copied
  Status first_ GUARDED_BY(mutex_);
};

}  // namespace

Status copy_object(const CopySetup& setup, const CopyItem& item) {
  if (const auto path = setup.to->local_path(item.to)) return copy_to_file(setup, item, *path);
  return copy_to_bucket(setup, item);
}

Status copy_objects(const CopySetup& setup, const std::vector<CopyItem>& items) {
  std::vector<CopyItem> sorted = items;
  std::ranges::stable_partition(sorted, [&setup](const CopyItem& item) {
    return item.from.size_bytes <= setup.move.part_bytes;
  });
  Turns turns(setup, sorted);
  const auto work = [&] {
    while (const CopyItem* item = turns.take()) {
      turns.end(*item, copy_by(setup, *item, turns.parts_of(*item)));
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto wanted = std::min(std::ssize(sorted), setup.move.in_flight_max);
    for (int64_t i = 1; i < wanted; ++i) threads.emplace_back(work);
    work();
  }
  RETURN_IF_ERROR(turns.first_failure());
  if (setup.stop.stop_requested()) return fail(Code::cancelled, "stopped");
  return {};
}

}  // namespace tern
