// What is done to one sample on its way from the source to the data set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/shard.h"
#include "image/decoder.h"
#include "import/range_reader.h"
#include "import/representation.h"
#include "import/source.h"

namespace tern {

struct WorkedSample {
  // What it is; bad_cause if it is of no use. Where it is, and its checksum, only in place.
  ShardRecord record;
  Bytes payload;           // packed: what goes into the shard
  std::string file;        // in place: relative to the source's root
  int64_t file_bytes = 0;  // of that file
};

// Reads, looks at and converts samples. One per thread.
class SampleWorker {
 public:
  // Without `pack`: for an index in place.
  SampleWorker(std::string root, std::optional<Representation> pack);

  // A sample that is no image, or a damaged one, is a bad sample and no error; errors are those of
  // the file system. Blocks for one read.
  Result<WorkedSample> work(SourceSample sample);

 private:
  // What the bytes are. `corrupt` with the cause if they are of no use.
  Result<ImageInfo> examine(const Bytes& bytes, const std::optional<ImageInfo>& raw);

  const std::optional<Representation> pack_;
  RangeReader reader_;
  ImageDecoder decoder_;
  Pixels pixels_;  // scratch
};

}  // namespace tern
