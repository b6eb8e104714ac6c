#include "import/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "core/crc32c.h"
#include "core/mutex.h"
#include "core/progress.h"
#include "dataset/sample_files.h"
#include "dataset/shard.h"
#include "image/decoder.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// Samples that a thread takes at once where there are no shards, and at most so many bytes of them
// where they are asked for together.
constexpr int64_t kBlockSamples = 256;
constexpr int64_t kBlockBytesMax = int64_t{16} << 20;

// What is to be checked by one thread in one go: a shard, or some samples.
struct Piece {
  int64_t file = -1;
  std::vector<int64_t> samples;
};

class Verifier {
 public:
  Verifier(const ImportedData& data, std::unique_ptr<SampleFiles> files,
           const VerifyOptions& options)
      : data_(data),
        index_(*data.index),
        options_(options),
        is_packed_(index_.about().root.empty()),
        files_(std::move(files)) {
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

  // False if nothing is left, or nothing more can be known.
  bool check_next() {
    const size_t next = next_.fetch_add(1);
    if (next >= pieces_.size() || has_failed_) return false;
    const Piece& piece = pieces_[next];
    if (is_packed_) check_shard(piece);
    if (!is_packed_ || options_.decode) check_samples(piece);
    return true;
  }

  Result<ShardBytes> open(const std::string& name) const {
    return data_.store != nullptr ? open_shard(*data_.store, name)
                                  : open_shard(fs::path(data_.place) / name);
  }

  void check_shard(const Piece& piece) {
    const std::string name(index_.file_path(piece.file));
    const auto first = piece.samples.empty() ? int64_t{0} : piece.samples.front();
    const auto complain = [&](const Error& error) {
      add(first, fmt::format("{}: {}", name, error.message), error);
    };
    const Result<ShardBytes> shard = open(name);
    if (!shard) return complain(shard.error());
    if (shard->size_bytes != index_.file_bytes(piece.file)) {
      return add(first, fmt::format("{}: has {} bytes, and the index says {}", name,
                                    shard->size_bytes, index_.file_bytes(piece.file)));
    }
    const Result<std::vector<ShardRecord>> records = read_shard_index(*shard);
    if (!records) return complain(records.error());
    std::map<uint64_t, int64_t> by_offset;
    for (const int64_t sample : piece.samples) by_offset[index_.entry(sample).offset] = sample;
    const Status read =
        verify_shard(*shard, *records, [&](const ShardRecord& record, const std::string& what) {
          const auto found = by_offset.find(record.offset);
          add(found == by_offset.end() ? first : found->second,
              fmt::format("{} in {} at {}: {}", record.name, name, record.offset, what));
        });
    if (!read) return complain(read.error());
    compare_with_index(*records, name, by_offset);
    bytes_ += shard->size_bytes;
  }

  void compare_with_index(const std::vector<ShardRecord>& records, const std::string& name,
                          const std::map<uint64_t, int64_t>& by_offset) {
    size_t matched = 0;
    for (const ShardRecord& record : records) {
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

  StoredRange range_of(int64_t sample) const {
    const IndexEntry& entry = index_.entry(sample);
    return {entry.file, static_cast<int64_t>(entry.offset), entry.length};
  }

  void check_samples(const Piece& piece) {
    ImageDecoder decoder;
    Pixels pixels;
    for (size_t at = 0; at < piece.samples.size() && !has_failed_;) {
      // Together where that is one round trip instead of many; a large sample comes alone.
      std::vector<StoredRange> ranges;
      int64_t bytes = 0;
      const size_t begin = at;
      for (; at < piece.samples.size() && std::ssize(ranges) < kBlockSamples; ++at) {
        ranges.push_back(range_of(piece.samples[at]));
        bytes += ranges.back().length;
        if (bytes <= kBlockBytesMax || ranges.size() == 1) continue;
        ranges.pop_back();
        break;
      }
      const std::vector<Result<Bytes>> together = files_->read_many(ranges);
      for (size_t i = 0; i < ranges.size(); ++i) {
        const StoredRange& range = ranges[i];
        Bytes buffer;
        Status read;
        if (together.empty()) {
          read = files_->read(range.file, range.offset, range.length, buffer);
        } else if (!together[i]) {
          read = together[i].error();
        }
        const BytesView stored =
            together.empty() || !read ? BytesView(buffer) : BytesView(*together[i]);
        check_sample(piece.samples[begin + i], read, stored, decoder, pixels);
      }
    }
  }

  void check_sample(int64_t sample, const Status& read, BytesView stored, ImageDecoder& decoder,
                    Pixels& pixels) {
    const IndexEntry& entry = index_.entry(sample);
    if (!is_packed_) bytes_ += entry.length;
    if (!read) return add_sample(sample, read.error());
    if (crc32c(stored) != entry.crc32c) {
      // Of a shard it has been said.
      if (!is_packed_) {
        add_sample(sample, fail(Code::corrupt, "the bytes differ from the index's checksum"));
      }
    } else if (options_.decode) {
      const Status decoded = decoder.decode_rgb(stored, entry.info(), pixels);
      if (!decoded) add_sample(sample, decoded.error());
    }
  }

  void add_sample(int64_t sample, const Error& error) {
    const IndexEntry& entry = index_.entry(sample);
    add(sample,
        fmt::format("{} in {} at {}: {}", index_.name(sample), index_.file_path(entry.file),
                    entry.offset, error.message),
        error);
  }

  // Of a bucket that cannot be asked nothing is known; a disk that cannot be read is damage.
  void add(int64_t sample, std::string text, const Error& error) EXCLUDES(mutex_) {
    const bool is_damage = data_.store == nullptr || error.code == Code::corrupt ||
                           error.code == Code::not_found || error.code == Code::invalid;
    if (is_damage) return add(sample, std::move(text));
    MutexLock lock(mutex_);
    if (!failure_) failure_ = fail(error.code, std::move(text));
    has_failed_ = true;
  }
  void add(int64_t sample, std::string text) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++damaged_;
    if (damages_.size() < options_.damages_max) damages_.emplace_back(sample, std::move(text));
  }

  Result<VerifyResult> take_result() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (failure_) return *failure_;
    std::sort(damages_.begin(), damages_.end());
    VerifyResult result{.samples = index_.samples(), .bytes = bytes_.load(), .damaged = damaged_};
    for (auto& [sample, text] : damages_) result.damages.push_back(std::move(text));
    return result;
  }

  // Constant after construction.
  const ImportedData& data_;
  const DatasetIndex& index_;
  const VerifyOptions options_;
  const bool is_packed_;
  const std::unique_ptr<SampleFiles> files_;
  std::vector<Piece> pieces_;

  // Synchronise themselves.
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<bool> has_failed_ = false;

  Mutex mutex_;
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  int64_t damaged_ GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<int64_t, std::string>> damages_ GUARDED_BY(mutex_);
};

}  // namespace

Result<VerifyResult> verify_data_set(const ImportedData& data, const VerifyOptions& options,
                                     Log& log, Clock& clock, std::stop_token stop) {
  ASSIGN_OR_RETURN(std::unique_ptr<SampleFiles> files, open_samples(data));
  Verifier verifier(data, std::move(files), options);
  return verifier.run(log, clock, std::move(stop));
}

}  // namespace tern
