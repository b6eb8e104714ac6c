#include "report/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tern {

EventFile::EventFile(ObjectStore& run, Clock& clock, Log& log, Setup setup)
    : run_(run), clock_(clock), log_(log), setup_(setup), written_at_(clock.now()) {
  MutexLock lock(mutex_);
  waiting_ = version_record(clock_.unix_ms());
  waiting_ += restart_record(clock_.unix_ms(), setup_.first_step + 1);
  // At once, so that whoever looks at a run that has just begun finds its file.
  write_waiting();
}

EventFile::~EventFile() { flush(); }

void EventFile::add(int64_t step, const std::vector<Scalar>& scalars) {
  if (scalars.empty()) return;
  const Bytes record = scalars_record(clock_.unix_ms(), step, scalars);
  MutexLock lock(mutex_);
  add_record(record);
  if (clock_.now() - written_at_ >= setup_.flush_every) write_waiting();
}

void EventFile::restart_after(int64_t step) {
  const Bytes record = restart_record(clock_.unix_ms(), step + 1);
  MutexLock lock(mutex_);
  add_record(record);
}

void EventFile::flush() {
  MutexLock lock(mutex_);
  write_waiting();
}

void EventFile::add_record(BytesView record) {
  // Only where writing fails for long, or points come by the thousand a second.
  if (waiting_.size() + record.size() > setup_.waiting_bytes_max) write_waiting();
  if (waiting_.size() + record.size() > setup_.waiting_bytes_max) return;
  waiting_ += record;
}

void EventFile::write_waiting() {
  written_at_ = clock_.now();
  if (waiting_.empty()) return;
  const std::optional<std::filesystem::path> path = run_.local_path(part_name());
  const Status written = path ? append_to_file(*path) : put_part();
  if (written.has_value()) {
    waiting_.clear();
    return;
  }
  if (warned_) return;
  warned_ = true;
  log_.warn("report", "cannot write TensorBoard's files; training goes on without them",
            {{"cause", written.error().to_string()}});
}

Status EventFile::open_file(const std::filesystem::path& path) {
  RealFileDoor door;
  ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> made,
                   door.make_folders(path.parent_path()));
  file_.emplace(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  struct stat info{};
  const bool is_open = file_->is_open() && ::fstat(file_->get(), &info) == 0;
  const int error = errno;
  if (!is_open) {
    file_.reset();
    return file_error("open", path, error);
  }
  file_bytes_ = info.st_size;
  return {};
}

Status EventFile::append_to_file(const std::filesystem::path& path) {
  if (!file_) RETURN_IF_ERROR(open_file(path));
  // A reader gives up at half a record, so one that a full disk left goes before the next is added.
  // Nobody else writes here; where nothing is cut this changes nothing.
  if (::ftruncate(file_->get(), file_bytes_) != 0) return file_error("cut", path, errno);
  size_t written = 0;
  const int error = write_fully(file_->get(), waiting_, written);
  if (error != 0) {
    // Best effort: it is done again before the next write.
    if (::ftruncate(file_->get(), file_bytes_) != 0) return file_error("cut", path, errno);
    return file_error("append to", path, error);
  }
  file_bytes_ += static_cast<int64_t>(waiting_.size());
  return {};
}

Status EventFile::put_part() {
  if (!part_.empty() && part_.size() + waiting_.size() > setup_.part_bytes_max) {
    ++part_number_;
    part_ = version_record(clock_.unix_ms());
  }
  const size_t before = part_.size();
  part_ += waiting_;
  Status put = run_.put(part_name(), part_);
  if (!put.has_value()) part_.resize(before);
  return put;
}

// By lease and not by time, as others name them: TensorBoard reads a folder's files in the order of
// their names, and clocks of machines that follow each other may not agree.
std::string EventFile::part_name() const {
  return fmt::format("{}/events.out.tfevents.{:010}.{:03}", kTensorBoardFolder, setup_.lease,
                     part_number_);
}

}  // namespace tern
