// The points that TensorBoard shows of a run: tensorboard/events.out.tfevents.LEASE.PART in the
// run folder, a file for each process. Format: docs/format_tensorboard.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/mutex.h"
#include "report/event_format.h"
#include "storage/file_door.h"
#include "storage/object_store.h"

namespace tern {

inline constexpr char kTensorBoardFolder[] = "tensorboard";

// Owned by RunRecords; safe from any thread. Points are kept in memory and written every few
// seconds by whoever adds the next one: on disk by one append, in a bucket by putting the newest
// part, of at most a megabyte, anew. A kill costs those seconds of curves.
// Nothing in it fails: what cannot be written is warned of once, and points that have to wait too
// long are dropped.
class EventFile {
 public:
  struct Setup {
    int64_t lease = 0;       // of the process that writes; later processes have larger ones
    int64_t first_step = 0;  // steps done when the process begins
    Milliseconds flush_every{5'000};
    size_t part_bytes_max = 1 << 20;     // of an object in a bucket
    size_t waiting_bytes_max = 1 << 20;  // that could not be written; more is dropped
  };

  // Begins the file. The store, the clock and the log outlive it.
  EventFile(ObjectStore& run, Clock& clock, Log& log, Setup setup);
  ~EventFile();  // writes what is left
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Points at `step` steps done. A value that is not finite is shown as such by TensorBoard.
  void add(int64_t step, const std::vector<Scalar>& scalars) EXCLUDES(mutex_);
  // The run goes back to where `step` steps were done: what is after it does not count.
  void restart_after(int64_t step) EXCLUDES(mutex_);
  // Writes what is waiting, now.
  void flush() EXCLUDES(mutex_);

 private:
  void add_record(BytesView record) REQUIRES(mutex_);
  void write_waiting() REQUIRES(mutex_);
  Status open_file(const std::filesystem::path& path) REQUIRES(mutex_);
  Status append_to_file(const std::filesystem::path& path) REQUIRES(mutex_);
  Status put_part() REQUIRES(mutex_);
  std::string part_name() const REQUIRES(mutex_);

  // Constant after construction.
  ObjectStore& run_;
  Clock& clock_;
  Log& log_;
  const Setup setup_;

  Mutex mutex_;
  Bytes waiting_ GUARDED_BY(mutex_);            // whole records, not yet written
  Bytes part_ GUARDED_BY(mutex_);               // in a bucket: what the newest part holds
  int64_t part_number_ GUARDED_BY(mutex_) = 0;  // stays 0 on disk
  std::optional<FileDescriptor> file_ GUARDED_BY(mutex_);  // on disk
  int64_t file_bytes_ GUARDED_BY(mutex_) = 0;              // whole records in it
  Nanoseconds written_at_ GUARDED_BY(mutex_);
  bool warned_ GUARDED_BY(mutex_) = false;
};

}  // namespace tern
