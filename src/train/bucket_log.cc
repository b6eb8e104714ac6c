#include "train/bucket_log.h"

#include <utility>

#include "train/run_records.h"

namespace tern {
namespace {

constexpr Milliseconds kWriteEvery{30'000};
// Of lines that cannot be written for long; what comes then is on stderr only.
constexpr size_t kWaitingBytesMax = 1 << 20;

}  // namespace

BucketLog::BucketLog(ObjectStore& run, Clock& clock, Log& log)
    : run_(run), clock_(clock), lines_(std::make_shared<Lines>()), written_at_(clock.now()) {
  log.add_sink([lines = lines_](std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    MutexLock lock(lines->mutex);
    if (lines->bytes + line.size() > kWaitingBytesMax) return;
    lines->waiting.emplace_back(line);
    lines->bytes += line.size();
  });
}

void BucketLog::write_if_due() {
  if (file_ == nullptr || clock_.now() - written_at_ >= kWriteEvery) write();
}

void BucketLog::write() {
  written_at_ = clock_.now();
  if (file_ == nullptr) {
    auto opened = open_record_log(run_, kLogObject);
    if (!opened.has_value()) return;
    file_ = std::move(*opened);
  }
  std::vector<std::string> lines;
  {
    MutexLock lock(lines_->mutex);
    std::swap(lines, lines_->waiting);
    lines_->bytes = 0;
  }
  for (const std::string& line : lines) file_->append(line).permit_unchecked_error();
  file_->sync().permit_unchecked_error();  // goes on waiting, within limits
}

}  // namespace tern
