// What a bucket of any cloud can do beyond an ObjectStore.
#pragma once

#include <string>

#include "core/clock.h"
#include "storage/object_store.h"

namespace tern {

// Sizes and limits, as options (storage/options.h) set them.
struct BucketOptions {
  int64_t part_bytes = int64_t{16} << 20;  // objects above two parts are sent in parts
  int64_t in_flight_max = 16;              // requests at once: memory is at most this many parts
};

// Names and answers as ObjectStore; safe from any thread. Errors say what to do next and never show
// a secret: permission_denied (wrong or expired credentials, or no right to this verb, which is
// named), not_found (also: no such bucket, which `tern store mb` makes), unavailable (after all
// attempts), failed_precondition (clock skew, an endpoint that is no object store).
class Bucket : public ObjectStore {
 public:
  // Made where it is not there; already being there succeeds.
  virtual Status make_bucket() = 0;
  // Uploads that were begun and never finished, older than that.
  virtual Result<int64_t> abort_uploads(Milliseconds older_than) = 0;
  // Which credentials are used and where they were found, without their secret part.
  virtual Result<std::string> credentials() = 0;

  std::optional<std::filesystem::path> local_path(const std::string&) const final {
    return std::nullopt;
  }
};

}  // namespace tern
