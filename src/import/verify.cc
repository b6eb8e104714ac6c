#include "import/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "core/crc32c.h"
#include "core/mutex.h"
#include "core/progress.h"
#include "dataset/sample_files.h"
#include "dataset/shard.h"
#include "image/decoder.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// Samples that a thread takes at once where there are no shards.
constexpr int64_t kBlockSamples = 256;

// What is to be checked by one thread in one go: a shard, or some samples.
struct Piece {
  int64_t file = -1;
  std::vector<int64_t> samples;
};

class Verifier {
 public:
  // `root` is where the files are.
  Verifier(const fs::path& folder, const fs::path& root, const DatasetIndex& index,
           const VerifyOptions& options)
      : folder_(folder),
        index_(index),
        options_(options),
        is_packed_(index.about().root.empty()),
        files_(open_folder_files(root.string(), index)) {
    cut_into_pieces();
  }

  Result<VerifyResult> run(Log& log, Clock& clock, std::stop_token stop) {
    int64_t total = 0;
    for (int64_t i = 0; i < index_.samples(); ++i) total += index_.entry(i).length;
    Progress progress(log, clock, {.what = "verify", .unit = "bytes", .total = total});
    {
      std::vector<std::jthread> helpers;
      for (int64_t i = 1; i < options_.threads; ++i) {
        helpers.emplace_back([this, stop] {
          while (!stop.stop_requested() && check_next()) {
          }
        });
      }
      // This thread works too, and is the one that shows progress.
      while (!stop.stop_requested() && check_next()) progress.update(bytes_.load());
    }
    if (stop.stop_requested()) return fail(Code::cancelled, "stopped before everything was read");
    return take_result();
  }

 private:
  void cut_into_pieces() {
    if (is_packed_) {
      pieces_.resize(static_cast<size_t>(index_.files()));
      for (size_t i = 0; i < pieces_.size(); ++i) pieces_[i].file = static_cast<int64_t>(i);
      for (int64_t i = 0; i < index_.samples(); ++i) {
        pieces_[index_.entry(i).file].samples.push_back(i);
      }
      return;
    }
    for (int64_t i = 0; i < index_.samples(); ++i) {
      if (i % kBlockSamples == 0) pieces_.emplace_back();
      pieces_.back().samples.push_back(i);
    }
  }

  bool check_next() {
    const size_t next = next_.fetch_add(1);
    if (next >= pieces_.size()) return false;
    const Piece& piece = pieces_[next];
    if (is_packed_) check_shard(piece);
    if (!is_packed_ || options_.decode) check_samples(piece);
    return true;
  }

  void check_shard(const Piece& piece) {
    const std::string name(index_.file_path(piece.file));
    const fs::path path = folder_ / name;
    const auto first = piece.samples.empty() ? int64_t{0} : piece.samples.front();
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    if (error) return add(first, fmt::format("{}: {}", name, error.message()));
    if (size != index_.file_bytes(piece.file)) {
      return add(first, fmt::format("{}: has {} bytes, and the index says {}", name, size,
                                    index_.file_bytes(piece.file)));
    }
    std::map<uint64_t, int64_t> by_offset;
    for (const int64_t sample : piece.samples) by_offset[index_.entry(sample).offset] = sample;
    const Status read = verify_shard(path, [&](const ShardRecord& record, const std::string& what) {
      const auto found = by_offset.find(record.offset);
      add(found == by_offset.end() ? first : found->second,
          fmt::format("{} in {} at {}: {}", record.name, name, record.offset, what));
    });
    if (!read.has_value()) return add(first, fmt::format("{}: {}", name, read.error().message));
    compare_with_index(path, name, by_offset);
    bytes_ += size;
  }

  void compare_with_index(const fs::path& path, const std::string& name,
                          const std::map<uint64_t, int64_t>& by_offset) {
    const auto records = read_shard_index(path);
    if (!records.has_value()) return;  // verify_shard() has said so
    size_t matched = 0;
    for (const ShardRecord& record : *records) {
      if (!record.bad_cause.empty()) continue;
      const auto found = by_offset.find(record.offset);
      if (found == by_offset.end()) continue;
      const IndexEntry& entry = index_.entry(found->second);
      if (entry.crc32c == record.crc32c && entry.length == record.length &&
          index_.name(found->second) == record.name) {
        ++matched;
      }
    }
    if (matched != by_offset.size()) {
      add(by_offset.begin()->second,
          fmt::format("{}: {} of its {} samples are not those of the index", name,
                      by_offset.size() - matched, by_offset.size()));
    }
  }

  void check_samples(const Piece& piece) {
    Bytes buffer;
    ImageDecoder decoder;
    Pixels pixels;
    for (const int64_t sample : piece.samples) {
      const IndexEntry& entry = index_.entry(sample);
      const Status read =
          files_->read(entry.file, static_cast<int64_t>(entry.offset), entry.length, buffer);
      if (!is_packed_) bytes_ += entry.length;
      if (!read.has_value()) {
        add_sample(sample, read.error().message);
      } else if (crc32c(buffer) != entry.crc32c) {
        if (!is_packed_) add_sample(sample, "the bytes differ from the index's checksum");
      } else if (options_.decode) {
        const Status decoded = decoder.decode_rgb(buffer, entry.info(), pixels);
        if (!decoded.has_value()) add_sample(sample, decoded.error().message);
      }
    }
  }

  void add_sample(int64_t sample, const std::string& what) {
    const IndexEntry& entry = index_.entry(sample);
    add(sample, fmt::format("{} in {} at {}: {}", index_.name(sample), index_.file_path(entry.file),
                            entry.offset, what));
  }

  void add(int64_t sample, std::string text) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++damaged_;
    if (damages_.size() < options_.damages_max) damages_.emplace_back(sample, std::move(text));
  }

  VerifyResult take_result() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::sort(damages_.begin(), damages_.end());
    VerifyResult result{.samples = index_.samples(), .bytes = bytes_.load(), .damaged = damaged_};
    for (auto& [sample, text] : damages_) result.damages.push_back(std::move(text));
    return result;
  }

  // Constant after construction.
  const fs::path folder_;
  const DatasetIndex& index_;
  const VerifyOptions options_;
  const bool is_packed_;
  const std::unique_ptr<SampleFiles> files_;
  std::vector<Piece> pieces_;

  // Synchronise themselves.
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> bytes_ = 0;

  Mutex mutex_;
  int64_t damaged_ GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<int64_t, std::string>> damages_ GUARDED_BY(mutex_);
};

}  // namespace

Result<VerifyResult> verify_data_set(const fs::path& folder, const DatasetIndex& index,
                                     const VerifyOptions& options, Log& log, Clock& clock,
                                     std::stop_token stop) {
  ASSIGN_OR_RETURN(const fs::path root, index.files_folder(folder));
  Verifier verifier(folder, root, index, options);
  return verifier.run(log, clock, std::move(stop));
}

}  // namespace tern
