// Records that grow: the ledger and the metrics. Format: docs/format_records.md.
//
// On disk one file, a record a line; in a bucket numbered create-only segments under NAME.d/, each
// with the records of some seconds, merged by the reader. A torn last line (a crash in the middle
// of an append) is dropped by readers and cut off by the next writer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// One writer at a time per log (the holder of the run's lease). Not thread-safe.
class RecordLog {
 public:
  virtual ~RecordLog() = default;

  // Adds one record: a line of text without a newline. On disk it survives the death of this
  // process when append() returns; in a bucket it waits for the next segment. After sync() it
  // survives the death of the machine, wherever it is. The destructor does not sync.
  virtual Status append(BytesView record) = 0;
  // In a bucket: what could not be written goes on waiting, and is tried with what comes next.
  virtual Status sync() = 0;
};

// When a log in a bucket becomes an object. Larger values make fewer, and lose more to a kill.
struct SegmentOptions {
  Clock* clock = nullptr;        // outlives the log; null: age is not looked at
  Milliseconds age_max{30'000};  // append() writes what has waited for this long,
  size_t bytes_max = 1 << 20;    // or has become this large
};

// Opens NAME in `store`, which outlives the log, for appending, creating it if missing.
Result<std::unique_ptr<RecordLog>> open_record_log(ObjectStore& store, const std::string& name,
                                                   const SegmentOptions& options = {});

// All whole records of NAME, oldest first: the file's, then the segments'. An absent log is empty.
// Segments are read many at once.
Result<std::vector<std::string>> read_records(ObjectStore& store, const std::string& name);

}  // namespace tern
