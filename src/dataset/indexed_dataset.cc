#include "dataset/indexed_dataset.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/crc32c.h"
#include "dataset/in_memory_dataset.h"
#include "dataset/staged_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// Below this many samples in a row from one file, on average, files say nothing about where reads
// are cheap: a tree of single files.
constexpr int64_t kRunMin = 16;
constexpr int64_t kBlockSamples = 1'000;
// Of samples that are asked for together; larger ones come one by one.
constexpr int64_t kManyBytesMax = int64_t{64} << 20;
// Some 400 million samples; what is larger is no index of ours.
constexpr int64_t kIndexBytesMax = int64_t{16} << 30;

// No branch in the loop: a million entries take a millisecond.
ImageShape common_shape(const DatasetIndex& index, int64_t first, int64_t count) {
  const IndexEntry& model = index.entry(first);
  unsigned sizes_differ = 0;
  unsigned channels_differ = 0;
  for (int64_t i = first; i < first + count; ++i) {
    const IndexEntry& entry = index.entry(i);
    sizes_differ |= static_cast<unsigned>(entry.width ^ model.width) |
                    static_cast<unsigned>(entry.height ^ model.height);
    channels_differ |= static_cast<unsigned>(entry.channels ^ model.channels);
  }
  const int64_t channels = channels_differ != 0 ? 0 : model.channels;
  if (sizes_differ != 0) return {channels, 0, 0};
  return {channels, model.height, model.width};
}

// The files that a split needs, in the order in which it first does.
std::vector<int64_t> files_of(const DatasetIndex& index, Split split) {
  std::vector<bool> is_listed(static_cast<size_t>(index.files()));
  std::vector<int64_t> files;
  for (int64_t i = 0; i < index.count(split); ++i) {
    const uint32_t file = index.entry(index.first(split) + i).file;
    if (is_listed[file]) continue;
    is_listed[file] = true;
    files.push_back(file);
  }
  return files;
}

Status check_has_samples(const ImportedData& data, Split split) {
  if (data.index->count(split) > 0) return {};
  return fail(Code::not_found, fmt::format("the data set in {} has no {} samples; import it "
                                           "again with --test-share 0.1, or a source that has both",
                                           data.place, split_name(split)));
}

Result<std::unique_ptr<SampleFiles>> stage_samples(const ImportedData& data,
                                                   std::unique_ptr<SampleFiles> files, Split split,
                                                   const std::string& folder,
                                                   OnStageFailure on_failure) {
  StageSetup setup{.source = std::move(files),
                   .index = data.index.get(),
                   .folder = folder,
                   .order = files_of(*data.index, split)};
  if (on_failure) {
    setup.on_failure = [tell = std::move(on_failure)](int64_t, const Error& error) { tell(error); };
  }
  return stage_files(std::move(setup));
}

}  // namespace

IndexedDataset::IndexedDataset(std::shared_ptr<const DatasetIndex> index,
                               std::shared_ptr<const SampleFiles> files, Split split,
                               std::string name, std::string folder)
    : index_(std::move(index)),
      files_(std::move(files)),
      first_(index_->first(split)),
      size_(index_->count(split)),
      name_(std::move(name)),
      folder_(std::move(folder)),
      id_(index_->id(split)),
      shape_(common_shape(*index_, first_, size_)) {
  TERN_CHECK(size_ > 0);
}

int64_t IndexedDataset::in_index(int64_t sample) const {
  TERN_CHECK(sample >= 0 && sample < size_);
  return first_ + sample;
}

ImageInfo IndexedDataset::info(int64_t sample) const { return entry(sample).info(); }

int64_t IndexedDataset::label(int64_t sample) const { return entry(sample).label; }

Result<BytesView> IndexedDataset::fetch(int64_t sample, Bytes& buffer) const {
  const IndexEntry& wanted = entry(sample);
  const auto offset = static_cast<int64_t>(wanted.offset);
  constexpr int kReads = 2;  // the second one if the first was of a copy that has gone bad
  for (int i = 0; i < kReads; ++i) {
    Status read = files_->read(wanted.file, offset, wanted.length, buffer);
    if (!read) {
      Error error = read.error().at(fmt::format("sample '{}'", index_->name(in_index(sample))));
      // A shard that is gone is no sample's fault: to pass over what it holds would be to train on
      // other data without a word.
      const bool is_packed = index_->about().root.empty();
      if (is_packed && error.code == Code::not_found) error.code = Code::unavailable;
      // Nor are keys that have expired, which hit all that is read from then on.
      if (is_packed && error.code == Code::permission_denied) {
        error.code = Code::failed_precondition;
      }
      return error;
    }
    if (crc32c(buffer) == wanted.crc32c) return BytesView(buffer);
    if (!files_->distrust(wanted.file)) break;
  }
  return fail(Code::corrupt,
              fmt::format("{}: the bytes differ from the index's checksum; run `tern "
                          "data verify {}`",
                          where(sample), folder_));
}

std::vector<Result<Bytes>> IndexedDataset::fetch_many(std::span<const int64_t> samples) const {
  std::vector<StoredRange> ranges;
  int64_t bytes = 0;
  for (const int64_t sample : samples) {
    const IndexEntry& wanted = entry(sample);
    ranges.push_back({wanted.file, static_cast<int64_t>(wanted.offset), wanted.length});
    bytes += wanted.length;
  }
  if (bytes > kManyBytesMax) return {};
  std::vector<Result<Bytes>> all = files_->read_many(ranges);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i] || crc32c(*all[i]) == entry(samples[i]).crc32c) continue;
    all[i] = fail(Code::corrupt, where(samples[i]));
  }
  return all;
}

Status IndexedDataset::decode(int64_t sample, BytesView stored, const View* view,
                              ImageDecoder& decoder, std::span<uint8_t> image) const {
  const ImageInfo sample_info = info(sample);
  if (view != nullptr) {
    const Status decoded = decoder.decode(stored, sample_info, *view, image);
    return decoded ? decoded : Status(decoded.error().at(where(sample)));
  }
  TERN_CHECK(shape_.height > 0 && static_cast<int64_t>(image.size()) == shape_.bytes());
  if (sample_info.format != ImageFormat::raw) {
    const Status decoded = decoder.decode_whole(stored, sample_info, image);
    return decoded ? decoded : Status(decoded.error().at(where(sample)));
  }
  if (stored.size() != image.size()) {
    return fail(Code::corrupt, fmt::format("{}: has {} bytes instead of {}; run `tern data verify "
                                           "{}`",
                                           where(sample), stored.size(), image.size(), folder_));
  }
  std::memcpy(image.data(), stored.data(), stored.size());
  return {};
}

std::vector<int64_t> IndexedDataset::shards() const {
  std::vector<int64_t> runs;
  for (int64_t i = 0; i < size_; ++i) {
    const bool is_new = i == 0 || entry(i).file != entry(i - 1).file;
    if (is_new) runs.push_back(0);
    ++runs.back();
  }
  if (size_ >= kRunMin * static_cast<int64_t>(runs.size())) return runs;
  std::vector<int64_t> blocks(static_cast<size_t>(size_ / kBlockSamples), kBlockSamples);
  if (size_ % kBlockSamples != 0) blocks.push_back(size_ % kBlockSamples);
  return blocks;
}

std::vector<std::string> IndexedDataset::class_names() const {
  const About& about = index_->about();
  return about.class_titles.empty() ? about.classes : about.class_titles;
}

std::string IndexedDataset::where(int64_t sample) const {
  const IndexEntry& wanted = entry(sample);
  return fmt::format("sample '{}' in {} at offset {}", index_->name(in_index(sample)),
                     files_->where(wanted.file), wanted.offset);
}

bool is_imported(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kIndexFile, ignored);
}

Result<ImportedData> find_imported(const fs::path& folder) {
  ImportedData data{.place = folder.string()};
  ASSIGN_OR_RETURN(data.index, DatasetIndex::open(folder / kIndexFile));
  return data;
}

Result<ImportedData> find_imported(std::shared_ptr<ObjectStore> store, std::string place) {
  ImportedData data{.store = std::move(store), .place = std::move(place)};
  const std::string doing = fmt::format("open the data set in {}", data.place);
  ASSIGN_OR_RETURN(const ObjectInfo info, data.store->stat(kIndexFile).at(doing));
  if (info.size_bytes > kIndexBytesMax) {
    return fail(Code::exhausted,
                fmt::format("{}/{} has {} bytes, and an index at most {}; name "
                            "another data set",
                            data.place, kIndexFile, info.size_bytes, kIndexBytesMax));
  }
  ASSIGN_OR_RETURN(Bytes bytes, data.store->get(kIndexFile).at(doing));
  ASSIGN_OR_RETURN(data.index, DatasetIndex::from_bytes(
                                   std::move(bytes), fmt::format("{}/{}", data.place, kIndexFile)));
  return data;
}

Result<std::unique_ptr<SampleFiles>> open_samples(const ImportedData& data) {
  if (data.store == nullptr) {
    ASSIGN_OR_RETURN(const fs::path root, data.index->files_folder(data.place));
    return open_folder_files(root.string(), *data.index);
  }
  if (data.index->about().root.empty()) {
    return open_store_files(data.store, data.place, *data.index);
  }
  return fail(Code::invalid,
              fmt::format("the data set in {} was indexed in place, so its samples are not in "
                          "the store; import it with --pack orig and copy that",
                          data.place));
}

Result<std::unique_ptr<Dataset>> open_split(const ImportedData& data, Split split,
                                            const std::string& stage,
                                            OnStageFailure on_stage_failure) {
  RETURN_IF_ERROR(check_has_samples(data, split));
  ASSIGN_OR_RETURN(std::unique_ptr<SampleFiles> files, open_samples(data));
  if (!stage.empty()) {
    ASSIGN_OR_RETURN(
        files, stage_samples(data, std::move(files), split, stage, std::move(on_stage_failure)));
  }
  const std::string name = fmt::format("imported:{}{}{}", data.place,
                                       data.place.ends_with('/') ? "" : "/", split_name(split));
  auto dataset =
      std::make_unique<IndexedDataset>(data.index, std::move(files), split, name, data.place);
  if (dataset->shape().channels == 0) {
    return fail(Code::invalid,
                fmt::format("the {} samples in {} differ in their number of channels; import grey "
                            "and colour images apart, or as orig",
                            split_name(split), data.place));
  }
  return dataset;
}

Result<std::unique_ptr<Dataset>> open_indexed(const fs::path& folder, Split split,
                                              const std::string& stage,
                                              OnStageFailure on_stage_failure) {
  ASSIGN_OR_RETURN(const ImportedData data, find_imported(folder));
  return open_split(data, split, stage, std::move(on_stage_failure));
}

Result<std::unique_ptr<Dataset>> open_indexed(std::shared_ptr<ObjectStore> store,
                                              const std::string& place, Split split,
                                              const std::string& stage,
                                              OnStageFailure on_stage_failure) {
  ASSIGN_OR_RETURN(const ImportedData data, find_imported(std::move(store), place));
  return open_split(data, split, stage, std::move(on_stage_failure));
}

}  // namespace tern
