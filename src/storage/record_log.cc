#include "storage/record_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "storage/file_door.h"

namespace tern {
namespace {

constexpr size_t kSegmentDigits = 8;
constexpr int64_t kSegmentMax = 99'999'999;
// How many numbers in a row may turn out to be taken before append() gives up. There is one writer,
// and a predecessor that does not know yet that it lost the lease adds a record or two at most.
constexpr int kSegmentAttemptsMax = 16;
constexpr int64_t kTailBlockBytes = 4096;

Status check_record(BytesView record) {
  if (record.find('\n') == BytesView::npos) return {};
  return fail(Code::invalid, "a record has a newline in it; write it as one line");
}

Bytes line_of(BytesView record) {
  Bytes line(record);
  line += '\n';
  return line;
}

// Where the last whole line ends: past the last newline, 0 if there is none.
Result<int64_t> end_of_whole_lines(int fd, int64_t size_bytes, const std::filesystem::path& path) {
  std::string block;
  for (int64_t end = size_bytes; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kTailBlockBytes);
    block.resize(static_cast<size_t>(end - begin));
    const ssize_t got = ::pread(fd, block.data(), block.size(), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path, errno);
    const size_t newline = block.rfind('\n', static_cast<size_t>(got));
    if (newline != std::string::npos) return begin + static_cast<int64_t>(newline) + 1;
    end = begin;
  }
  return int64_t{0};
}

// One file, opened with O_APPEND: a record is one write(2), so it lands whole or, if the machine or
// the disk gives out in the middle, as a torn last line.
class FileLog final : public RecordLog {
 public:
  static Result<std::unique_ptr<RecordLog>> open(const std::filesystem::path& path) {
    RealFileDoor door;
    ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> made,
                     door.make_folders(path.parent_path()));
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (!fd.is_open()) return file_error("open", path, errno);
    std::unique_ptr<FileLog> log(new FileLog(path, std::move(fd)));
    RETURN_IF_ERROR(log->cut_torn_line());
    RETURN_IF_ERROR(door.sync_folder(path.parent_path()));
    for (const std::filesystem::path& folder : made) {
      RETURN_IF_ERROR(door.sync_folder(folder.parent_path()));
    }
    return log;
  }

  Status append(BytesView record) override {
    RETURN_IF_ERROR(check_record(record));
    if (is_torn_) RETURN_IF_ERROR(cut_torn_line());
    size_t written = 0;
    const int error = write_fully(fd_.get(), line_of(record), written);
    if (error == 0) return {};
    // The disk filled up in the middle of the line. It is cut off now, or before the next record.
    is_torn_ = true;
    cut_torn_line().permit_unchecked_error();
    return file_error("append to", path_, error);
  }

  Status sync() override {
    if (::fdatasync(fd_.get()) != 0) return file_error("sync", path_, errno);
    return {};
  }

 private:
  FileLog(std::filesystem::path path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  Status cut_torn_line() {
    struct stat info{};
    if (::fstat(fd_.get(), &info) != 0) return file_error("stat", path_, errno);
    ASSIGN_OR_RETURN(const int64_t end, end_of_whole_lines(fd_.get(), info.st_size, path_));
    if (end < info.st_size && ::ftruncate(fd_.get(), end) != 0) {
      return file_error("cut the torn last line of", path_, errno);
    }
    is_torn_ = false;
    return {};
  }

  const std::filesystem::path path_;
  const FileDescriptor fd_;
  bool is_torn_ = false;
};

std::string segment_prefix(const std::string& name) { return name + ".d/"; }

// The numbered segments of a log, in order; others' objects under the same prefix are passed over.
Result<std::vector<std::string>> list_segments(ObjectStore& store, const std::string& name) {
  const std::string prefix = segment_prefix(name);
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store.list(prefix));
  std::vector<std::string> segments;
  for (const ObjectInfo& object : objects) {
    const std::string number = object.name.substr(prefix.size());
    const bool is_number = number.find_first_not_of("0123456789") == std::string::npos;
    if (number.size() == kSegmentDigits && is_number) segments.push_back(object.name);
  }
  return segments;  // list() sorts by name, and these names have equal lengths
}

// One create-only object for each record: durable when append() returns, hence nothing to sync.
class SegmentLog final : public RecordLog {
 public:
  static Result<std::unique_ptr<RecordLog>> open(ObjectStore& store, const std::string& name) {
    ASSIGN_OR_RETURN(const std::vector<std::string> segments, list_segments(store, name));
    int64_t next = 1;
    if (!segments.empty()) {
      const std::string& last = segments.back();
      next = std::stoll(last.substr(last.size() - kSegmentDigits)) + 1;
    }
    return std::make_unique<SegmentLog>(store, segment_prefix(name), next);
  }

  SegmentLog(ObjectStore& store, std::string prefix, int64_t next)
      : store_(store), prefix_(std::move(prefix)), next_(next) {}

  Status append(BytesView record) override {
    RETURN_IF_ERROR(check_record(record));
    // The newline tells a whole segment from a torn one, and makes segments fit for cat(1).
    const Bytes line = line_of(record);
    for (int attempt = 0; attempt < kSegmentAttemptsMax; ++attempt) {
      if (next_ > kSegmentMax) {
        return fail(Code::exhausted,
                    fmt::format("{} has no numbers left; begin another log", prefix_));
      }
      const Status created = store_.create(fmt::format("{}{:08}", prefix_, next_), line);
      if (!created && created.error().code != Code::already_exists) return created;
      ++next_;
      if (created) return {};
    }
    return fail(Code::aborted, fmt::format("another process keeps writing to {}; stop it, or open "
                                           "the log again",
                                           prefix_));
  }

  Status sync() override { return {}; }

 private:
  ObjectStore& store_;
  const std::string prefix_;
  int64_t next_;
};

// Adds the whole lines of `text`; what follows the last newline is torn and dropped.
void add_whole_lines(BytesView text, std::vector<std::string>& records) {
  while (true) {
    const size_t newline = text.find('\n');
    if (newline == BytesView::npos) return;
    records.emplace_back(text.substr(0, newline));
    text.remove_prefix(newline + 1);
  }
}

}  // namespace

Result<std::unique_ptr<RecordLog>> open_record_log(ObjectStore& store, const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  if (const auto path = store.local_path(name)) return FileLog::open(*path);
  return SegmentLog::open(store, name);
}

Result<std::vector<std::string>> read_records(ObjectStore& store, const std::string& name) {
  std::vector<std::string> records;
  const Result<Bytes> file = store.get(name);
  if (!file && file.error().code != Code::not_found) return file.error();
  if (file) add_whole_lines(*file, records);

  ASSIGN_OR_RETURN(const std::vector<std::string> segments, list_segments(store, name));
  for (const std::string& segment : segments) {
    ASSIGN_OR_RETURN(const Bytes text, store.get(segment));
    add_whole_lines(text, records);
  }
  return records;
}

}  // namespace tern
