// log.txt of a run in a bucket.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/mutex.h"
#include "storage/object_store.h"
#include "storage/record_log.h"

namespace tern {

// Lines are kept in memory, so that nobody who logs waits for a network, and written together every
// half minute by the step loop. Owned by it; lines come from any thread, also after its end.
// Nothing fails: what cannot be written is on stderr.
class BucketLog {
 public:
  // Collects from now on. The store and the clock outlive it.
  BucketLog(ObjectStore& run, Clock& clock, Log& log);

  // Only the holder of the run writes: not before it is held. Each writes what has come until then,
  // if it is the time.
  void write_if_due();
  void write();

 private:
  struct Lines {
    Mutex mutex;
    std::vector<std::string> waiting GUARDED_BY(mutex);
    size_t bytes GUARDED_BY(mutex) = 0;
  };

  ObjectStore& run_;
  Clock& clock_;
  const std::shared_ptr<Lines> lines_;  // the log's too
  std::unique_ptr<RecordLog> file_;     // from the first write on
  Nanoseconds written_at_;
};

}  // namespace tern
