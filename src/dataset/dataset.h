// A data set: labelled images that never change under an id. Start here for data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace tern {

struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t bytes() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

// Immutable after it is opened; safe from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual int64_t classes() const = 0;
  // The shape every sample is decoded to; uint8, channel by channel (CHW).
  virtual ImageShape shape() const = 0;
  // REQUIRES: 0 <= sample < size().
  virtual int64_t label(int64_t sample) const = 0;
  // Writes the decoded sample. REQUIRES: image.size() == shape().bytes().
  virtual Status read(int64_t sample, std::span<uint8_t> image) const = 0;

  // Hash of the index (names, sizes, labels, content hashes; docs/format_dataset_id.md): the same
  // samples have the same id however they are stored.
  virtual const std::string& id() const = 0;
  // What a person calls it: "idx:/usr/share/datasets/fashion-mnist/train".
  virtual const std::string& name() const = 0;
};

enum class Split { train, test };

struct DataOptions;
// Opens one split as the options say. Errors name the file, what is wrong and what to do.
Result<std::unique_ptr<Dataset>> open_dataset(const DataOptions& options, Split split);

}  // namespace tern
