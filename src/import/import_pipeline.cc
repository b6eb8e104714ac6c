#include "import/import_pipeline.h"

#include <thread>
#include <utility>

#include "import/parallel.h"

namespace tern {
namespace {

// A batch is closed at either limit.
constexpr size_t kBatchSamples = 64;
constexpr int64_t kBatchBytes = int64_t{1} << 20;
// Enough that no worker waits while the writer syncs a shard.
constexpr int64_t kBatchesPerThread = 16;

Error stopped() { return fail(Code::cancelled, "stopped"); }

int64_t bytes_of(const SourceSample& sample) {
  return sample.range ? sample.range->length : static_cast<int64_t>(sample.bytes.size());
}

size_t batches_max(int64_t threads) { return static_cast<size_t>(kBatchesPerThread * threads); }

}  // namespace

bool ByteBudget::take(int64_t bytes, std::stop_token stop) {
  MutexLock lock(mutex_);
  const bool fits = changed_.wait(lock, stop, [&] {
    mutex_.assert_held();
    return out_ <= 0 || out_ + bytes <= limit_;
  });
  if (fits) out_ += bytes;
  return fits;
}

void ByteBudget::grow(int64_t bytes) {
  MutexLock lock(mutex_);
  out_ += bytes;
  changed_.notify_all();
}

ImportPipeline::ImportPipeline(PipelineSetup setup)
    : setup_(std::move(setup)),
      root_(setup_.source->root()),
      budget_(setup_.bytes_max),
      to_work_(batches_max(setup_.threads)),
      to_write_(batches_max(setup_.threads)) {}

Status ImportPipeline::run(const Wanted& wanted, const Write& write, std::stop_token stop) {
  const std::stop_callback on_stop(stop, [this] { ending_.request_stop(); });
  Status scanned;
  Status written;
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < setup_.threads; ++i) threads.emplace_back([this] { work(); });
    threads.emplace_back([&, this] {
      scanned = guarded([&] { return scan(wanted); });
      to_work_.close();
      to_write_.close();
    });
    written = guarded([&] { return write_all(write); });
    // After an error nobody waits for the writer any more; else all have left already.
    if (!written) ending_.request_stop();
  }
  // The writer gives up when the scan is stopped, and the other way round: the cause is the one
  // that is not that.
  if (!written && written.error().code != Code::cancelled) return written;
  if (!scanned && scanned.error().code != Code::cancelled) return scanned;
  return written ? scanned : written;
}

Status ImportPipeline::scan(const Wanted& wanted) {
  const std::stop_token ending = ending_.get_token();
  const Status scanned = setup_.source->scan([&](SourceSample sample) -> Status {
    if (ending.stop_requested()) return stopped();
    ASSIGN_OR_RETURN(const bool is_wanted, wanted(sample));
    return is_wanted ? add(std::move(sample)) : Status();
  });
  // Also after an error: what came before it is kept.
  const Status sent = send();
  return scanned ? sent : scanned;
}

Status ImportPipeline::add(SourceSample sample) {
  if (!filling_) filling_ = std::make_shared<Batch>();
  const int64_t bytes = bytes_of(sample);
  if (filling_->cost_bytes + bytes > kBatchBytes) RETURN_IF_ERROR(send());
  if (!filling_) filling_ = std::make_shared<Batch>();
  filling_->samples.push_back(std::move(sample));
  filling_->cost_bytes += bytes;
  filling_->scanned_bytes = setup_.source->bytes_done();
  return filling_->samples.size() >= kBatchSamples ? send() : Status();
}

Status ImportPipeline::send() {
  const std::shared_ptr<Batch> batch = std::exchange(filling_, nullptr);
  if (!batch || batch->samples.empty()) return {};
  const std::stop_token ending = ending_.get_token();
  const bool sent = budget_.take(batch->cost_bytes, ending) && to_write_.push(batch, ending) &&
                    to_work_.push(batch, ending);
  return sent ? Status() : stopped();
}

void ImportPipeline::work() {
  SampleWorker worker(root_, setup_.pack);
  const std::stop_token ending = ending_.get_token();
  while (!ending.stop_requested()) {
    const std::optional<std::shared_ptr<Batch>> batch = to_work_.pop(ending);
    if (!batch) return;
    std::vector<WorkedSample> samples;
    const Status status = guarded([&] { return work_on(worker, **batch, samples); });
    Result<std::vector<WorkedSample>> worked = std::move(samples);
    if (!status) worked = status.error();
    (*batch)->worked.push(std::move(worked), ending);
  }
}

Status ImportPipeline::work_on(SampleWorker& worker, Batch& batch,
                               std::vector<WorkedSample>& worked) {
  int64_t payload_bytes = 0;
  for (SourceSample& sample : batch.samples) {
    ASSIGN_OR_RETURN(WorkedSample one, worker.work(std::move(sample)));
    payload_bytes += static_cast<int64_t>(one.payload.size());
    worked.push_back(std::move(one));
  }
  batch.samples.clear();
  budget_.grow(payload_bytes - batch.cost_bytes);
  batch.cost_bytes = payload_bytes;
  return {};
}

Status ImportPipeline::write_all(const Write& write) {
  const std::stop_token ending = ending_.get_token();
  while (std::optional<std::shared_ptr<Batch>> batch = to_write_.pop(ending)) {
    std::optional<Result<std::vector<WorkedSample>>> worked = (*batch)->worked.pop(ending);
    if (!worked || ending.stop_requested()) return stopped();
    if (!*worked) return worked->error();
    for (WorkedSample& sample : **worked) {
      RETURN_IF_ERROR(write(std::move(sample), (*batch)->scanned_bytes));
    }
    budget_.grow(-(*batch)->cost_bytes);
  }
  return ending.stop_requested() ? stopped() : Status();
}

}  // namespace tern
