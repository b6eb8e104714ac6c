// A data set that `tern data import` made: packed into shards, or indexed where it lies.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/sample_files.h"

namespace tern {

// One split of it. Reads are checked against the index's checksum: `corrupt` names the sample, its
// file and offset. Immutable, safe from any thread.
class IndexedDataset final : public Dataset {
 public:
  // REQUIRES: index->count(split) > 0; `files` serves that index, which it may refer to. `folder`
  // is for messages: what to run `tern data verify` on. shape() has 0 channels if the samples
  // have different numbers of them; open_indexed() refuses that.
  IndexedDataset(std::shared_ptr<const DatasetIndex> index,
                 std::shared_ptr<const SampleFiles> files, Split split, std::string name,
                 std::string folder = "DST");

  int64_t size() const override { return size_; }
  int64_t classes() const override { return index_->classes(); }
  ImageShape shape() const override { return shape_; }
  ImageInfo info(int64_t sample) const override;
  int64_t label(int64_t sample) const override;
  Result<BytesView> fetch(int64_t sample, Bytes& buffer) const override;
  std::vector<Result<Bytes>> fetch_many(std::span<const int64_t> samples) const override;
  Status decode(int64_t sample, BytesView stored, const View* view, ImageDecoder& decoder,
                std::span<uint8_t> image) const override;
  std::vector<int64_t> shards() const override;
  std::vector<std::string> class_names() const override;
  std::vector<double> mean() const override { return index_->about().mean; }
  std::vector<double> stddev() const override { return index_->about().stddev; }
  std::string where(int64_t sample) const override;
  const std::string& id() const override { return id_; }
  const std::string& name() const override { return name_; }

 private:
  // REQUIRES: 0 <= sample < size().
  int64_t in_index(int64_t sample) const;
  const IndexEntry& entry(int64_t sample) const { return index_->entry(in_index(sample)); }

  const std::shared_ptr<const DatasetIndex> index_;
  const std::shared_ptr<const SampleFiles> files_;  // after the index, which it may refer to
  const int64_t first_;                             // of the index's samples
  const int64_t size_;
  const std::string name_;
  const std::string folder_;
  const std::string id_;
  const ImageShape shape_;
};

// True if `folder` holds an imported data set.
bool is_imported(const std::filesystem::path& folder);

// A data set that `tern data import` made, where it is.
struct ImportedData {
  std::shared_ptr<const DatasetIndex> index;
  std::shared_ptr<ObjectStore> store;  // that has index and samples; null: they are in a folder
  std::string place;                   // the folder, or for messages the store's address
};

// Reads the index. `not_found` if there is none, `corrupt` if it is damaged.
Result<ImportedData> find_imported(const std::filesystem::path& folder);
Result<ImportedData> find_imported(std::shared_ptr<ObjectStore> store, std::string place);

// Its samples. `data.index` outlives them. `not_found` if they were indexed in place and are gone,
// `invalid` if they were indexed in place and only the index is in the store.
Result<std::unique_ptr<SampleFiles>> open_samples(const ImportedData& data);

// One split of it; with `stage`, behind a local copy, whose failures `on_stage_failure` (may be
// null; any thread) is told. `not_found` if the split has no samples.
Result<std::unique_ptr<Dataset>> open_split(const ImportedData& data, Split split,
                                            const std::string& stage = "",
                                            OnStageFailure on_stage_failure = {});

// find_imported() and open_split().
Result<std::unique_ptr<Dataset>> open_indexed(const std::filesystem::path& folder, Split split,
                                              const std::string& stage = "",
                                              OnStageFailure on_stage_failure = {});
// The same from a store, which it keeps: the index is fetched whole, samples by ranged reads.
Result<std::unique_ptr<Dataset>> open_indexed(std::shared_ptr<ObjectStore> store,
                                              const std::string& place, Split split,
                                              const std::string& stage = "",
                                              OnStageFailure on_stage_failure = {});

}  // namespace tern
