// The threads of an import: one scans the source, some work on samples, and the caller's own writes
// them in the source's order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/bounded_queue.h"
#include "core/mutex.h"
#include "core/result.h"
#include "import/sample_worker.h"
#include "import/source.h"

namespace tern {

// Bytes that are under way, and a limit on them. Safe from any thread.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t limit) : limit_(limit) {}

  // Blocks until they fit, or nothing else is out: one sample may be larger than the limit. False
  // if it gave up.
  bool take(int64_t bytes, std::stop_token stop) EXCLUDES(mutex_);
  // What was taken turned out to be this much more (or less); never blocks.
  void grow(int64_t bytes) EXCLUDES(mutex_);

 private:
  const int64_t limit_;
  ConditionVariable changed_;
  Mutex mutex_;
  int64_t out_ GUARDED_BY(mutex_) = 0;
};

struct PipelineSetup {
  Source* source = nullptr;            // outlives the pipeline
  std::optional<Representation> pack;  // nothing: in place
  int64_t threads = 1;
  int64_t bytes_max = int64_t{256} << 20;  // under way between the source and the writer
};

// Owned by the import. run() is called once.
class ImportPipeline {
 public:
  // Called by the scanning thread for every sample: shall it be worked on? An error ends all.
  using Wanted = std::function<Result<bool>(const SourceSample&)>;
  // Called by the thread that called run(), in the source's order. `scanned_bytes` is how far the
  // source had come.
  using Write = std::function<Status(WorkedSample, int64_t scanned_bytes)>;

  explicit ImportPipeline(PipelineSetup setup);

  // Blocks until every sample is written. The first error of anybody is returned; `stop` ends it
  // with `cancelled`.
  Status run(const Wanted& wanted, const Write& write, std::stop_token stop);

 private:
  // Samples that travel together, so that small ones do not cost a lock each.
  struct Batch {
    std::vector<SourceSample> samples;
    int64_t cost_bytes = 0;     // of the budget
    int64_t scanned_bytes = 0;  // of the source
    BoundedQueue<Result<std::vector<WorkedSample>>> worked{1};
  };

  Status scan(const Wanted& wanted);
  Status add(SourceSample sample);
  Status send();
  void work();
  Status work_on(SampleWorker& worker, Batch& batch, std::vector<WorkedSample>& worked);
  Status write_all(const Write& write);

  const PipelineSetup setup_;
  const std::string root_;
  std::stop_source ending_;
  ByteBudget budget_;
  BoundedQueue<std::shared_ptr<Batch>> to_work_;
  BoundedQueue<std::shared_ptr<Batch>> to_write_;  // the same batches, in order
  std::shared_ptr<Batch> filling_;                 // of the scanning thread only
};

}  // namespace tern
