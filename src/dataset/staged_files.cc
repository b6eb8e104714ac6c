#include "dataset/staged_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "dataset/open_files.h"
#include "dataset/stage_copy.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// With those of the source, for both splits, half of what a process may usually have open.
constexpr int64_t kOpenFilesMax = 128;
constexpr size_t kAskedMax = 64;  // files that jump the queue at a time
constexpr int kAttemptsMax = 3;   // to copy one file

// Which samples lie in each file: a counting sort of the index.
class SamplesByFile {
 public:
  explicit SamplesByFile(const DatasetIndex& index)
      : begins_(static_cast<size_t>(index.files()) + 1),
        samples_(static_cast<size_t>(index.samples())) {
    for (int64_t i = 0; i < index.samples(); ++i) ++begins_[index.entry(i).file];
    std::exclusive_scan(begins_.begin(), begins_.end(), begins_.begin(), size_t{0});
    std::vector<size_t> next(begins_);
    for (int64_t i = 0; i < index.samples(); ++i) samples_[next[index.entry(i).file]++] = i;
  }

  std::span<const int64_t> of(int64_t file) const {
    const auto i = static_cast<size_t>(file);
    return std::span(samples_).subspan(begins_[i], begins_[i + 1] - begins_[i]);
  }

 private:
  std::vector<size_t> begins_;
  std::vector<int64_t> samples_;
};

// What a file's copy is now. Only the thread that moved a file to `copying` moves it on.
enum class CopyState : uint8_t {
  waiting,    // not begun
  asked,      // jumps the queue
  copying,    // or being dropped
  elsewhere,  // another process copies it
  here,       // reads go to the copy
  failed,     // tried again when it is next read
  given_up,
};

class StagedFiles final : public SampleFiles {
 public:
  StagedFiles(StageSetup setup, std::string folder)
      : setup_(std::move(setup)),
        index_(*setup_.index),
        folder_(std::move(folder)),
        samples_(index_),
        states_(static_cast<size_t>(index_.files())),
        copies_([this](int64_t file) -> Result<std::string> { return path_of(file); },
                kOpenFilesMax),
        attempts_(static_cast<size_t>(index_.files())) {
    if (setup_.order.empty()) {
      setup_.order.resize(static_cast<size_t>(index_.files()));
      std::iota(setup_.order.begin(), setup_.order.end(), int64_t{0});
    }
    for (int64_t i = 0; i < setup_.threads; ++i) {
      workers_.emplace_back([this](std::stop_token stop) { work(stop); });
    }
  }

  ~StagedFiles() override {
    for (std::jthread& worker : workers_) worker.request_stop();  // all, before the first is joined
  }

  Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) const override {
    if (state(file).load() == CopyState::here) {
      const Status read = copies_.read(file, offset, length, buffer);
      if (read) return {};
      // Too many open files, or no memory: not the copy's fault.
      if (read.error().code != Code::exhausted) drop_copy(file, read.error());
    }
    RETURN_IF_ERROR(setup_.source->read(file, offset, length, buffer));
    ask_for(file);
    return {};
  }

  // As long as one of them is not here; those that are would come no later.
  std::vector<Result<Bytes>> read_many(std::span<const StoredRange> ranges) const override {
    const auto is_here = [this](const StoredRange& range) {
      return state(range.file).load() == CopyState::here;
    };
    if (std::ranges::all_of(ranges, is_here)) return {};
    std::vector<Result<Bytes>> all = setup_.source->read_many(ranges);
    for (const StoredRange& range : ranges) {
      if (!is_here(range)) ask_for(range.file);
    }
    return all;
  }

  std::string where(int64_t file) const override {
    if (state(file).load() != CopyState::here) return setup_.source->where(file);
    return fmt::format("{} (a copy of {})", path_of(file), setup_.source->where(file));
  }

  // True also for what came from the source: it is then read from there twice, which may help and
  // tells apart for certain whose bytes are bad.
  bool distrust(int64_t file) const override {
    drop_copy(file, fail(Code::corrupt,
                         "its bytes differ from the index's checksum; check the "
                         "disk (dmesg)"));
    return true;
  }

 private:
  using State = std::atomic<CopyState>;

  State& state(int64_t file) const { return states_[static_cast<size_t>(file)]; }

  std::string path_of(int64_t file) const {
    return fmt::format("{}/{}", folder_, index_.file_path(file));
  }

  void drop_copy(int64_t file, const Error& error) const EXCLUDES(mutex_) {
    CopyState expected = CopyState::here;
    if (!state(file).compare_exchange_strong(expected, CopyState::copying)) return;
    copies_.drop(file);
    ::unlink(path_of(file).c_str());
    count_failure(file, error.at(fmt::format("the copy {} was dropped", path_of(file))));
  }

  // A reader has missed this file. Cheap where nothing can be done.
  void ask_for(int64_t file) const EXCLUDES(mutex_) {
    CopyState now = state(file).load();
    const bool may_be_copied =
        now == CopyState::waiting || now == CopyState::elsewhere || now == CopyState::failed;
    if (!may_be_copied) return;
    MutexLock lock(mutex_);
    if (has_ended_ || asked_.size() >= kAskedMax) return;
    if (!state(file).compare_exchange_strong(now, CopyState::asked)) return;
    asked_.push_back(file);
    changed_.notify_one();
  }

  // The next file to copy, which is then `copying`; nothing when there will be none.
  std::optional<int64_t> next(const std::stop_token& stop) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (true) {
      changed_.wait(lock, stop, [this] {
        mutex_.assert_held();
        return has_ended_ || !asked_.empty() || next_ < setup_.order.size();
      });
      if (stop.stop_requested() || has_ended_) return std::nullopt;
      const bool is_asked = !asked_.empty();
      const int64_t file = is_asked ? asked_.front() : setup_.order[next_++];
      if (is_asked) asked_.pop_front();
      CopyState expected = is_asked ? CopyState::asked : CopyState::waiting;
      if (state(file).compare_exchange_strong(expected, CopyState::copying)) return file;
    }
  }

  void work(const std::stop_token& stop) EXCLUDES(mutex_) {
    Bytes block;
    while (const std::optional<int64_t> file = next(stop)) {
      settle(*file, copy_one(*file, block, stop));
    }
  }

  StageResult copy_one(int64_t file, Bytes& block, const std::stop_token& stop) const {
    const Status path = check_file_path(index_.file_path(file));
    if (!path) return {StageOutcome::source_failed, path.error()};
    const StageCopy copy{.source = *setup_.source,
                         .index = index_,
                         .file = file,
                         .samples = samples_.of(file),
                         .target = path_of(file),
                         .block_bytes = setup_.block_bytes};
    StageResult result = stage_copy(copy, block, stop);
    result.error = result.error.at(fmt::format("stage {}", setup_.source->where(file)));
    return result;
  }

  void settle(int64_t file, const StageResult& result) EXCLUDES(mutex_) {
    switch (result.outcome) {
      case StageOutcome::here:
        state(file) = CopyState::here;
        if (setup_.on_staged) setup_.on_staged(file);
        return;
      case StageOutcome::elsewhere: state(file) = CopyState::elsewhere; return;
      case StageOutcome::stopped: state(file) = CopyState::waiting; return;
      case StageOutcome::source_failed: count_failure(file, result.error); return;
      case StageOutcome::disk_failed: end_copying(file, result.error); return;
    }
  }

  // REQUIRES: this thread has moved it to `copying`.
  void count_failure(int64_t file, const Error& error) const EXCLUDES(mutex_) {
    int attempts = 0;
    {
      MutexLock lock(mutex_);
      attempts = ++attempts_[static_cast<size_t>(file)];
    }
    if (attempts == 1 && setup_.on_failure) {
      setup_.on_failure(file, Error{error.code, error.message + "; its source is read instead"});
    }
    state(file) = attempts < kAttemptsMax ? CopyState::failed : CopyState::given_up;
  }

  void end_copying(int64_t file, const Error& error) EXCLUDES(mutex_) {
    state(file) = CopyState::given_up;
    {
      MutexLock lock(mutex_);
      if (std::exchange(has_ended_, true)) return;
      changed_.notify_all();
    }
    if (setup_.on_failure) {
      setup_.on_failure(
          file, Error{error.code, error.message + "; until the next start, what is not staged "
                                                  "yet is read from its source"});
    }
  }

  // Constant after construction.
  StageSetup setup_;
  const DatasetIndex& index_;
  const std::string folder_;
  const SamplesByFile samples_;

  // Synchronise themselves.
  mutable std::vector<State> states_;
  mutable OpenFiles copies_;

  mutable ConditionVariable changed_;
  mutable Mutex mutex_;
  mutable std::deque<int64_t> asked_ GUARDED_BY(mutex_);
  size_t next_ GUARDED_BY(mutex_) = 0;  // in setup_.order
  bool has_ended_ GUARDED_BY(mutex_) = false;
  mutable std::vector<uint8_t> attempts_ GUARDED_BY(mutex_);  // that failed, by file

  std::vector<std::jthread> workers_;  // last: they use all the others
};

}  // namespace

Result<std::unique_ptr<SampleFiles>> stage_files(StageSetup setup) {
  TERN_CHECK(setup.source && setup.index != nullptr && setup.threads > 0 && setup.block_bytes > 0);
  for (const int64_t file : setup.order) TERN_CHECK(file >= 0 && file < setup.index->files());
  const fs::path folder = fs::path(setup.folder) / setup.index->id().substr(0, 16);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return file_error("make", folder, error.value())
        .at(fmt::format("data.stage = {}", setup.folder));
  }
  try {
    return std::make_unique<StagedFiles>(std::move(setup), folder.string());
  } catch (const std::system_error&) {
    return fail(Code::exhausted,
                "no thread can be started to stage data; raise the limit of processes (ulimit -u)");
  }
}

}  // namespace tern
