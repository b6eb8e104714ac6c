// Records that grow: the ledger and the metrics. Format: docs/format_records.md.
//
// On disk one file, a record a line; in a bucket numbered create-only segments under NAME.d/,
// merged by the reader. A torn last line (a crash in the middle of an append) is dropped by readers
// and cut off by the next writer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// One writer at a time per log (the holder of the run's lease). Not thread-safe.
class RecordLog {
 public:
  virtual ~RecordLog() = default;

  // Adds one record: a line of text without a newline. When it returns the record survives the
  // death of this process; after sync() also that of the machine.
  virtual Status append(BytesView record) = 0;
  virtual Status sync() = 0;
};

// Opens NAME in `store` for appending, creating it if missing.
Result<std::unique_ptr<RecordLog>> open_record_log(ObjectStore& store, const std::string& name);

// All whole records of NAME, oldest first: the file's, then the segments'. An absent log is empty.
Result<std::vector<std::string>> read_records(ObjectStore& store, const std::string& name);

}  // namespace tern
