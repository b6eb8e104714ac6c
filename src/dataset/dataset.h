// A data set: labelled images that never change under an id. Start here for data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "image/decoder.h"
#include "image/image.h"

namespace tern {

struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t bytes() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

// Immutable after it is opened; safe from any thread. A sample is read in two steps, so that
// waiting for bytes and working on them can be told apart, and the second is given what it needs:
// which part of the image, at which size.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual int64_t classes() const = 0;
  // The shape that samples have without a view; uint8, channel by channel (CHW). Height and width
  // are 0 if samples have different sizes: those can only be read with a view.
  virtual ImageShape shape() const = 0;
  // REQUIRES, of all below: 0 <= sample < size().
  virtual ImageInfo info(int64_t sample) const = 0;
  virtual int64_t label(int64_t sample) const = 0;

  // The sample's bytes as stored; they stay valid while `buffer`, which they may lie in, is left
  // alone. May block for one read.
  virtual Result<BytesView> fetch(int64_t sample, Bytes& buffer) const = 0;
  // The same of several at once, where asking for them together pays: in a bucket. Nothing where
  // it does not; an error is no last word, fetch() is asked again. May block for one read.
  virtual std::vector<Result<Bytes>> fetch_many(std::span<const int64_t> /*samples*/) const {
    return {};
  }
  // Writes the pixels (CHW): what `view` asks for, or the whole sample at its own size.
  // REQUIRES: `stored` is what fetch() gave; image has the size that view, or shape(), says.
  virtual Status decode(int64_t sample, BytesView stored, const View* view, ImageDecoder& decoder,
                        std::span<uint8_t> image) const = 0;

  // How many consecutive samples lie in each file, in order: what a windowed shuffle keeps
  // together. They add up to size().
  virtual std::vector<int64_t> shards() const { return {size()}; }
  // By label, as the data set calls them; empty: it has no names.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Of the train split's pixels, from 0 to 1, by channel, as recorded with the data set; the same
  // for both splits. Empty, both: not recorded.
  virtual std::vector<double> mean() const { return {}; }
  virtual std::vector<double> stddev() const { return {}; }
  // For messages: the sample's name, its file and offset.
  virtual std::string where(int64_t sample) const = 0;

  // Hash of the index (names, sizes, labels, content hashes; docs/format_dataset_id.md): the same
  // samples have the same id however they are stored.
  virtual const std::string& id() const = 0;
  // What a person calls it: "idx:/usr/share/datasets/fashion-mnist/train".
  virtual const std::string& name() const = 0;
};

enum class Split { train, test };

// Told once of each thing that keeps a file from being staged (data.stage); the run goes on
// without. Called from any thread.
using OnStageFailure = std::function<void(const Error& error)>;

struct DataOptions;
// Opens one split as the options say. Errors name the file, what is wrong and what to do.
Result<std::unique_ptr<Dataset>> open_dataset(const DataOptions& options, Split split,
                                              OnStageFailure on_stage_failure = {});

}  // namespace tern
