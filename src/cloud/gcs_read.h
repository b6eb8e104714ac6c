// Reading of objects in Google Cloud Storage: whole, in ranges, large ones in parts at once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cloud/bucket.h"
#include "cloud/gcs_connection.h"
#include "cloud/gcs_json.h"

namespace tern {

// Some bytes of one version of an object, as an answer brought them.
struct GcsPiece {
  Bytes bytes;
  int64_t total = 0;               // bytes of the whole object
  std::string generation;          // which version it is
  std::optional<uint32_t> crc32c;  // of the whole object
};

// From an answer with status 200 or 206 to a request for `length` bytes at `offset`. Nothing if it
// is not what a store answers, or not what was asked for. Takes the body.
std::optional<GcsPiece> take_gcs_piece(HttpAnswer& answer, int64_t offset, int64_t length);

// Safe from any thread; calls block. The connection outlives it. Memory is what is returned, plus
// at most as many parts as the transport has in flight.
class GcsReader {
 public:
  GcsReader(GcsConnection& connection, const BucketOptions& options);

  // As ObjectStore::get_range(). All bytes are of one version, and a whole object is compared with
  // its checksum: `corrupt` if it twice is another, `unavailable` if it is replaced all the time.
  Result<Bytes> read(const std::string& name, int64_t offset, int64_t length);
  std::vector<Result<Bytes>> read_all(std::span<const ObjectRange> ranges);
  Result<GcsObject> stat(const std::string& name);

 private:
  struct Part;

  GcsCall call(const std::string& name, int64_t offset, int64_t length,
               const std::string& generation) const;
  Result<GcsPiece> piece_of(HttpAnswer& answer, const std::string& name, int64_t offset,
                            int64_t length);
  Status read_rest(const std::string& name, int64_t offset, int64_t end, GcsPiece& piece);
  Status read_parts(const std::string& name, std::span<Part> parts, const GcsPiece& piece);

  GcsConnection& connection_;
  const int64_t part_bytes_;
  const int64_t parts_at_once_;
};

}  // namespace tern
