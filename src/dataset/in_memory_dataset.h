// A data set whose samples are all in memory, and the id that names its content.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "dataset/dataset.h"

namespace tern {

// What a reader of a file format hands over: the samples of one split, in the order of the files.
struct Samples {
  ImageShape shape;
  int64_t classes = 0;
  Bytes pixels;  // image after image, CHW
  std::vector<int64_t> labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// The word for a split in names and ids: "train" or "test".
std::string_view split_name(Split split);

// The dataset id, 64 hex digits: SHA-256 of the index as docs/format_dataset_id.md defines it. It
// depends on the samples only, not on where or how they are stored.
std::string dataset_id(const Samples& samples, Split split);

// Immutable, so safe from any thread; nothing blocks once it is made, and only decoding with a view
// can fail.
class InMemoryDataset final : public Dataset {
 public:
  // REQUIRES: at least one sample; sides of 1 to kImageSideMax and at most 255 channels; pixels for
  // exactly as many samples as there are labels; labels within [0, classes). Readers of files have
  // checked this, naming the file where it does not hold.
  InMemoryDataset(std::string name, Split split, Samples samples);

  int64_t size() const override { return samples_.size(); }
  int64_t classes() const override { return samples_.classes; }
  ImageShape shape() const override { return samples_.shape; }
  ImageInfo info(int64_t sample) const override;
  int64_t label(int64_t sample) const override;
  // A view into the data set's own memory; `buffer` is left alone.
  Result<BytesView> fetch(int64_t sample, Bytes& buffer) const override;
  Status decode(int64_t sample, BytesView stored, const View* view, ImageDecoder& decoder,
                std::span<uint8_t> image) const override;
  std::string where(int64_t sample) const override;
  const std::string& id() const override { return id_; }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  const Samples samples_;
  const std::string id_;
};

}  // namespace tern
