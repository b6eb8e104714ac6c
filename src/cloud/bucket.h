// What a bucket of any cloud can do beyond an ObjectStore.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace tern {

// Called, from any thread, with bytes that were sent and that nobody waits for: who gave put() a
// mapped file can take them out of the process's memory, to which they count. They may be looked at
// again all the same, as after a lost reply.
using OnSent = std::function<void(BytesView bytes)>;

// Sizes and limits, as options (storage/options.h) set them.
struct BucketOptions {
  int64_t part_bytes = int64_t{16} << 20;  // objects above two parts are sent in parts
  int64_t in_flight_max = 16;              // requests at once: memory is at most this many parts
  int64_t pages_max = 100'000;             // of a listing, each of a thousand names or more
  OnSent on_sent = nullptr;
};

// An upload in parts that was begun, and neither finished nor aborted: a killed process leaves it.
struct OpenUpload {
  std::string name;  // as the store has it; may be none of ours
  std::string id;
  int64_t began_unix_ms = 0;
};

// Names and answers as ObjectStore; safe from any thread. Errors say what to do next and never show
// a secret: permission_denied (wrong or expired credentials, or no right to this verb, which is
// named), not_found (also: no such bucket, which `tern store mb` makes), unavailable (after all
// attempts), failed_precondition (clock skew, an endpoint that is no object store).
class Bucket : public ObjectStore {
 public:
  // Made where it is not there; already being there succeeds.
  virtual Status make_bucket() = 0;
  // Those whose name begins with `prefix`. Only S3 keeps and charges for them until somebody aborts
  // them; the others have no list of them, and forget them after a week.
  virtual Result<std::vector<OpenUpload>> list_uploads(const std::string& /*prefix*/) {
    return std::vector<OpenUpload>();
  }
  // What they have sent is gone then; one that is gone already is no failure. All are tried, and
  // the first failure returned.
  virtual Status abort_uploads(std::span<const OpenUpload> /*uploads*/) { return {}; }
  // Which credentials are used and where they were found, without their secret part.
  virtual Result<std::string> credentials() = 0;

  std::optional<std::filesystem::path> local_path(const std::string&) const final {
    return std::nullopt;
  }
};

}  // namespace tern
