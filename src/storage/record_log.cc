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
constexpr size_t kWaitingFactorMax = 8;               // times bytes_max: what may wait in memory
constexpr int64_t kReadBytesMax = int64_t{64} << 20;  // of segments asked for at once

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
Result<std::vector<ObjectInfo>> list_segments(ObjectStore& store, const std::string& name) {
  const std::string prefix = segment_prefix(name);
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store.list(prefix));
  std::vector<ObjectInfo> segments;
  for (const ObjectInfo& object : objects) {
    const std::string number = object.name.substr(prefix.size());
    const bool is_number = number.find_first_not_of("0123456789") == std::string::npos;
    if (number.size() == kSegmentDigits && is_number) segments.push_back(object);
  }
  return segments;  // list() sorts by name, and these names have equal lengths
}

// A create-only object for each batch of records. What waits is in memory, and is lost with the
// process; sync() is called before anything is published that the records tell of.
class SegmentLog final : public RecordLog {
 public:
  static Result<std::unique_ptr<RecordLog>> open(ObjectStore& store, const std::string& name,
                                                 const SegmentOptions& options) {
    ASSIGN_OR_RETURN(const std::vector<ObjectInfo> segments, list_segments(store, name));
    int64_t next = 1;
    if (!segments.empty()) {
      const std::string& last = segments.back().name;
      next = std::stoll(last.substr(last.size() - kSegmentDigits)) + 1;
    }
    return std::make_unique<SegmentLog>(store, segment_prefix(name), next, options);
  }

  SegmentLog(ObjectStore& store, std::string prefix, int64_t next, const SegmentOptions& options)
      : store_(store), prefix_(std::move(prefix)), options_(options), next_(next) {}

  Status append(BytesView record) override {
    RETURN_IF_ERROR(check_record(record));
    const Nanoseconds now = options_.clock == nullptr ? Nanoseconds(0) : options_.clock->now();
    if (waiting_.empty()) since_ = now;
    const size_t bytes = waiting_.size() + record.size() + 1;
    // Only while the bucket cannot be written: memory has a limit too.
    if (!waiting_.empty() && bytes > kWaitingFactorMax * options_.bytes_max) {
      if (options_.clock != nullptr && now - since_ < options_.age_max) return is_full();
      since_ = now;
      RETURN_IF_ERROR(write_segment());
    }
    // The newline tells a whole segment from a torn one, and makes segments fit for cat(1).
    waiting_ += record;
    waiting_ += '\n';
    const bool is_due = waiting_.size() - tried_bytes_ >= options_.bytes_max ||
                        (options_.clock != nullptr && now - since_ >= options_.age_max);
    if (!is_due) return {};
    since_ = now;  // one that fails is not tried again with every record
    tried_bytes_ = waiting_.size();
    return write_segment();
  }

  Status sync() override { return waiting_.empty() ? Status() : write_segment(); }

 private:
  Error is_full() const {
    return fail(Code::exhausted,
                fmt::format("{} cannot be written, and no more of it is kept in memory; check the "
                            "store",
                            prefix_));
  }

  Status write_segment() {
    for (int attempt = 0; attempt < kSegmentAttemptsMax; ++attempt) {
      if (next_ > kSegmentMax) {
        return fail(Code::exhausted,
                    fmt::format("{} has no numbers left; begin another log", prefix_));
      }
      const std::string name = fmt::format("{}{:08}", prefix_, next_);
      const Status created = store_.create(name, waiting_);
      if (!created && created.error().code != Code::already_exists) {
        unsure_bytes_ = waiting_.size();
        return created;
      }
      ++next_;
      if (created) {
        written(waiting_.size());
      } else if (unsure_bytes_ > 0) {
        RETURN_IF_ERROR(find_out(name));
      }
      if (waiting_.empty()) return {};
    }
    return fail(Code::aborted, fmt::format("another process keeps writing to {}; stop it, or open "
                                           "the log again",
                                           prefix_));
  }

  // Whether the attempt that failed has written this segment all the same.
  Status find_out(const std::string& name) {
    ASSIGN_OR_RETURN(const Bytes there, store_.get(name));
    if (there == BytesView(waiting_).substr(0, unsure_bytes_)) written(unsure_bytes_);
    return {};
  }

  void written(size_t bytes) {
    waiting_.erase(0, bytes);
    tried_bytes_ = 0;
    unsure_bytes_ = 0;
  }

  ObjectStore& store_;
  const std::string prefix_;
  const SegmentOptions options_;
  int64_t next_;
  Bytes waiting_;            // whole lines
  size_t tried_bytes_ = 0;   // of them, those that were due before and could not be written
  size_t unsure_bytes_ = 0;  // of them, those that may have been written by an attempt that failed
  Nanoseconds since_{0};     // when the oldest of them came, or was tried
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

Result<std::unique_ptr<RecordLog>> open_record_log(ObjectStore& store, const std::string& name,
                                                   const SegmentOptions& options) {
  RETURN_IF_ERROR(check_object_name(name));
  if (const auto path = store.local_path(name)) return FileLog::open(*path);
  return SegmentLog::open(store, name, options);
}

Result<std::vector<std::string>> read_records(ObjectStore& store, const std::string& name) {
  std::vector<std::string> records;
  const Result<Bytes> file = store.get(name);
  if (!file && file.error().code != Code::not_found) return file.error();
  if (file) add_whole_lines(*file, records);

  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> segments, list_segments(store, name));
  for (size_t begin = 0; begin < segments.size();) {
    std::vector<ObjectRange> ranges;
    for (int64_t bytes = 0; begin < segments.size() && (ranges.empty() || bytes < kReadBytesMax);
         ++begin) {
      ranges.push_back({segments[begin].name, 0, segments[begin].size_bytes});
      bytes += segments[begin].size_bytes;
    }
    for (const Result<Bytes>& text : store.get_ranges(ranges)) {
      if (!text) return text.error();
      add_whole_lines(*text, records);
    }
  }
  return records;
}

}  // namespace tern
