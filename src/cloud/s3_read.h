// Reading objects of a bucket: whole, in part, many at once, and only their size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cloud/bucket.h"
#include "cloud/s3_client.h"
#include "core/result.h"

namespace tern {

// Borrowed by a bucket; safe from any thread; every call blocks. Names have been checked.
class S3Reader {
 public:
  S3Reader(S3Client& client, const BucketOptions& options) : client_(client), options_(options) {}

  // As ObjectStore's. What is longer than a part is read in parts, many at once, and all of one
  // version: a part of another makes it begin again. Beside the result at most in_flight_max parts
  // are in memory.
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length);
  // Up to a part goes to the sink as it arrives; more is read as above.
  Result<int64_t> get_range_to(const std::string& name, int64_t offset, int64_t length,
                               const RangeSink& sink);
  std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges);
  Result<ObjectInfo> stat(const std::string& name);
  // Of its metadata (nonce.h); empty if it has none.
  Result<std::string> nonce_of(const std::string& name);

 private:
  // One version of the object, as the first part of it tells.
  struct Version {
    std::string etag;
    int64_t size_bytes = 0;
  };

  struct Seen {
    int64_t size_bytes = 0;
    std::string nonce;
  };

  Result<Seen> look(const std::string& name);
  // `aborted` if the object was replaced meanwhile.
  Result<Bytes> read_once(const std::string& name, int64_t offset, int64_t length);
  Result<Bytes> read_past_end(const std::string& name, int64_t offset, int64_t length);
  // Appends what is missing up to `wanted` bytes.
  Status read_rest(const std::string& name, int64_t offset, int64_t wanted, const Version& version,
                   Bytes& bytes);

  S3Client& client_;
  const BucketOptions options_;
};

}  // namespace tern
