#include "import/import.h"

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/progress.h"
#include "dataset/shard.h"
#include "import/import_folder.h"
#include "import/import_index.h"
#include "import/import_pipeline.h"
#include "import/parallel.h"
#include "import/pixel_statistics.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFirstBad = 3;

// What must be the same for an import to be gone on with.
nlohmann::json plan_of(const Source& source, const ImportOptions& options) {
  return {{"source", source.describe()},
          {"root", source.root()},
          {kPlanFiles, source.version()},
          {"address", options.address},
          {"representation", options.pack ? options.pack->to_string() : "in place"},
          {"shard_bytes", options.shard_bytes},
          {"statistics_samples", options.statistics_samples},
          {"test_share", options.test_share},
          {"version", options.tern_version}};
}

// One sample of a finished shard: enough to see whether the source still has it in that place.
struct Taken {
  size_t identity = 0;
  uint32_t length = 0;
  bool is_bad = false;
};

size_t identity_of(const std::string& name, const std::string& class_name, Split split) {
  return std::hash<std::string>()(
      fmt::format("{}\n{}\n{}", static_cast<int>(split), class_name, name));
}

Error source_changed(const std::string& what, const fs::path& folder) {
  return fail(Code::failed_precondition,
              fmt::format("the source is not what it was when this import was begun: {}; remove {} "
                          "to begin anew, or import into another folder",
                          what, folder.string()));
}

// A folder inside of the destination moves with it: then it is stored relative to that.
std::string root_in_index(const std::string& root, const fs::path& destination) {
  std::error_code error;
  const fs::path below =
      fs::path(root).lexically_relative(fs::weakly_canonical(destination, error));
  const bool is_inside = !error && !below.empty() && *below.begin() != "..";
  return is_inside ? below.generic_string() : root;
}

// One import. Lives for one call of import_dataset(); the pipeline's threads call only is_wanted().
class Import {
 public:
  Import(Source& source, const ImportOptions& options, Log& log, Clock& clock, std::stop_token stop)
      : source_(source),
        options_(options),
        describe_(source.describe()),
        root_(source.root()),
        log_(log),
        clock_(clock),
        stop_(std::move(stop)) {}

  Result<ImportResult> run() {
    ASSIGN_OR_RETURN(folder_, ImportFolder::open(options_.destination, plan_of(source_, options_)));
    if (options_.pack) RETURN_IF_ERROR(take_over());
    RETURN_IF_ERROR(pass_samples());
    ASSIGN_OR_RETURN(IndexContent content, index_.finish(source_));
    RETURN_IF_ERROR(verify_shards());
    RETURN_IF_ERROR(describe(content));
    return publish(content);
  }

 private:
  Status take_over();
  Status take_shard(bool is_earlier);
  Status pass_samples();
  Result<bool> is_wanted(const SourceSample& sample);
  Status write(WorkedSample sample, int64_t scanned_bytes);
  Status finish_shard();
  Status verify_shards();
  Status describe(IndexContent& content);
  Result<ImportResult> publish(const IndexContent& content);

  // Constant after construction.
  Source& source_;
  const ImportOptions& options_;
  const std::string describe_;  // before the scan: the plan's
  const std::string root_;
  Log& log_;
  Clock& clock_;
  const std::stop_token stop_;

  std::unique_ptr<ImportFolder> folder_;
  ImportIndex index_;
  std::vector<Taken> taken_;  // in the source's order; constant while the pipeline runs
  int64_t taken_over_ = 0;
  size_t scanned_ = 0;  // of the scanning thread only, while it runs
  int64_t shards_ = 0;  // finished
  std::unique_ptr<ShardWriter> writer_;
  std::unique_ptr<Progress> progress_;
};

// The first shard that is missing or damaged ends what is taken over.
Status Import::take_over() {
  RETURN_IF_ERROR(folder_->make_shards_folder());
  std::error_code error;
  while (fs::exists(folder_->path(ImportFolder::shard_name(shards_)), error)) {
    const Status taken = take_shard(/*is_earlier=*/true);
    if (taken) continue;
    if (taken.error().code != Code::corrupt) return taken;
    log_.warn("import", "a shard of an earlier import is damaged and is packed again",
              {{"cause", taken.error().message}});
    break;
  }
  RETURN_IF_ERROR(folder_->remove_shards_from(shards_));
  if (shards_ > 0) {
    log_.info("import", "going on after an earlier import",
              {{"shards", format_count(shards_)}, {"samples", format_count(taken_over_)}});
  }
  return {};
}

// Puts the next shard into the index, as it says itself: the same whoever wrote it.
Status Import::take_shard(bool is_earlier) {
  const std::string name = ImportFolder::shard_name(shards_);
  ASSIGN_OR_RETURN(const std::vector<ShardRecord> records, read_shard_index(folder_->path(name)));
  std::error_code error;
  const auto size_bytes = static_cast<int64_t>(fs::file_size(folder_->path(name), error));
  if (error) return file_error("stat", folder_->path(name), error.value());
  const uint32_t file = index_.add_file(name, size_bytes);
  for (const ShardRecord& record : records) {
    index_.add(record, file);
    if (!is_earlier) continue;
    const bool is_bad = !record.bad_cause.empty();
    taken_.push_back({.identity = identity_of(record.name, record.class_name, record.split),
                      .length = record.length,
                      .is_bad = is_bad});
    taken_over_ += is_bad ? 0 : 1;
  }
  ++shards_;
  return {};
}

Status Import::pass_samples() {
  ImportPipeline pipeline({.source = &source_, .pack = options_.pack, .threads = options_.threads});
  const Status passed = pipeline.run(
      [this](const SourceSample& sample) { return is_wanted(sample); },
      [this](WorkedSample sample, int64_t scanned) { return write(std::move(sample), scanned); },
      stop_);
  progress_.reset();
  RETURN_IF_ERROR(passed);
  if (scanned_ < taken_.size()) {
    return source_changed(
        fmt::format("it has {} samples, of which {} were packed", scanned_, taken_.size()),
        options_.destination);
  }
  return writer_ ? finish_shard() : Status();
}

Result<bool> Import::is_wanted(const SourceSample& sample) {
  const size_t number = scanned_++;
  // A sample without bytes lies nowhere; it is listed as bad.
  if (!options_.pack && !sample.range && !sample.bytes.empty()) {
    return fail(Code::invalid,
                "this source is compressed, so its samples cannot be read where they lie; add "
                "--pack orig");
  }
  if (number >= taken_.size()) return true;
  const Taken& taken = taken_[number];
  if (taken.identity != identity_of(sample.name, sample.class_name, sample.split)) {
    return source_changed(fmt::format("its sample {} is now {}", number, sample.name),
                          options_.destination);
  }
  const size_t length =
      sample.range ? static_cast<size_t>(sample.range->length) : sample.bytes.size();
  const bool keeps_length = options_.pack->kind == Representation::Kind::orig && !taken.is_bad;
  if (keeps_length && length != taken.length) {
    return source_changed(fmt::format("{} had {} bytes, now {}", sample.name, taken.length, length),
                          options_.destination);
  }
  return false;
}

Status Import::write(WorkedSample sample, int64_t scanned_bytes) {
  if (!progress_) {
    progress_ =
        std::make_unique<Progress>(log_, clock_,
                                   ProgressOptions{.what = "import",
                                                   .unit = "bytes",
                                                   .total = source_.total_bytes(),
                                                   .start = taken_.empty() ? 0 : scanned_bytes});
  }
  if (!sample.record.bad_cause.empty()) {
    log_.debug("import", "bad sample",
               {{"name", sample.record.name}, {"cause", sample.record.bad_cause}});
  }
  progress_->update(scanned_bytes);
  if (!options_.pack) {
    const bool is_bad = !sample.record.bad_cause.empty();
    index_.add(sample.record, is_bad ? 0 : index_.add_file(sample.file, sample.file_bytes));
    return {};
  }
  if (!writer_) {
    const fs::path file = folder_->path(ImportFolder::shard_name(shards_));
    ASSIGN_OR_RETURN(writer_, ShardWriter::create(file));
  }
  RETURN_IF_ERROR(writer_->add(std::move(sample.record), sample.payload));
  return writer_->bytes() >= options_.shard_bytes ? finish_shard() : Status();
}

Status Import::finish_shard() {
  RETURN_IF_ERROR(writer_->finish());
  writer_.reset();
  return take_shard(/*is_earlier=*/false);
}

// Also of those that were taken over: what they say of themselves was checked, not their samples.
Status Import::verify_shards() {
  std::atomic<int64_t> first_damaged = shards_;
  const auto verify = [&](int64_t shard, int64_t) -> Status {
    std::string damage;
    const fs::path file = folder_->path(ImportFolder::shard_name(shard));
    RETURN_IF_ERROR(verify_shard(file, [&](const ShardRecord& record, const std::string& what) {
      if (damage.empty()) damage = fmt::format("{}: {}: {}", file.string(), record.name, what);
    }));
    if (damage.empty()) return {};
    for (int64_t seen = first_damaged; shard < seen;)
      first_damaged.compare_exchange_weak(seen, shard);
    return fail(Code::corrupt, damage);
  };
  const Status verified = for_each_in_parallel(shards_, options_.threads, stop_, verify);
  if (verified || first_damaged == shards_) return verified;
  // Else the same command would find the same damage for ever.
  RETURN_IF_ERROR(folder_->remove_shards_from(first_damaged));
  return fail(Code::corrupt,
              fmt::format("{}; what was written reads back differently, so it was removed from "
                          "there on: check the disk, then run the same command to go on",
                          verified.error().message));
}

Status Import::describe(IndexContent& content) {
  About& about = content.about;
  about.source = describe_;
  if (!options_.address.empty()) about.source += ", fetched from " + options_.address;
  about.representation = options_.pack ? options_.pack->to_string() : "orig";
  about.root = options_.pack ? "" : root_in_index(root_, options_.destination);
  about.tern_version = options_.tern_version;
  const fs::path root = options_.pack ? options_.destination : fs::path(root_);
  ASSIGN_OR_RETURN(
      PixelStatistics pixels,
      measure_pixels(content, root, options_.statistics_samples, options_.threads, stop_));
  about.mean = std::move(pixels.mean);
  about.stddev = std::move(pixels.stddev);
  about.pixels_from = pixels.samples;
  return {};
}

Result<ImportResult> Import::publish(const IndexContent& content) {
  const Bytes bytes = encode_index(content);
  ASSIGN_OR_RETURN(const std::unique_ptr<DatasetIndex> index,
                   DatasetIndex::from_bytes(bytes, "the new index"));
  RETURN_IF_ERROR(folder_->publish_index(bytes));
  RETURN_IF_ERROR(folder_->forget_plan());
  ImportResult result{.train_samples = index->count(Split::train),
                      .test_samples = index->count(Split::test),
                      .classes = index->classes(),
                      .bad = static_cast<int64_t>(content.about.bad.size()),
                      .ignored = source_.ignored(),
                      .taken_over = taken_over_,
                      .id = index->id()};
  for (const IndexEntry& entry : content.entries) result.bytes += entry.length;
  for (const BadSample& bad : content.about.bad) {
    if (result.first_bad.size() < kFirstBad) result.first_bad.push_back(bad);
  }
  return result;
}

}  // namespace

Result<ImportResult> import_dataset(Source& source, const ImportOptions& options, Log& log,
                                    Clock& clock, std::stop_token stop) {
  TERN_CHECK(options.threads > 0 && options.shard_bytes > 0);
  return Import(source, options, log, clock, std::move(stop)).run();
}

}  // namespace tern
