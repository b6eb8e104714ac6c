// From an address to a store: s3://bucket/prefix, gs://bucket/prefix,
// az://account/container/prefix, file:///path or a plain path.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cloud/bucket.h"
#include "cloud/transport.h"
#include "core/clock.h"
#include "core/http_client.h"

namespace tern {

// What the process knows of its surroundings; main() fills it, as nothing else asks the
// environment.
struct CloudSurroundings {
  std::function<std::optional<std::string>(const std::string&)> variable;  // getenv
  std::filesystem::path home;  // for ~/.aws and the like
  std::string certificates;
  TellPeople tell;  // that a store is waited for
};

struct StoreAddress {
  enum class Kind { disk, s3, gcs, azure };

  Kind kind = Kind::disk;
  std::string account;  // azure
  std::string bucket;   // azure: the container
  std::string prefix;   // object name or its beginning, without slashes at its ends; disk: the path

  bool is_folder() const { return kind == Kind::disk; }
  // What was parsed, but for slashes at the end; a folder as its path.
  std::string to_string() const;
  bool operator==(const StoreAddress&) const = default;
};

// Whether text begins with s3://, gs:// or az://.
bool is_cloud_address(std::string_view text);
// `invalid`, with the form that was expected, for an unknown scheme or a bad bucket name.
Result<StoreAddress> parse_store_address(const std::string& text);

// Owns what buckets stand on: the HTTP client and its thread, which are made for the first bucket
// that is opened. Safe from any thread. The clock outlives it, and it outlives what it opened.
class CloudDoor {
 public:
  CloudDoor(CloudSurroundings surroundings, Clock& clock, const HttpOptions& http = {},
            const RetryPolicy& retry = {}, const BucketOptions& options = {});
  ~CloudDoor();
  CloudDoor(const CloudDoor&) = delete;
  CloudDoor& operator=(const CloudDoor&) = delete;

  // The bucket itself, without the prefix. Looks for credentials and sends nothing. `invalid` for a
  // folder.
  Result<std::unique_ptr<Bucket>> open_bucket(const StoreAddress& address);
  // The store below the address' prefix; for a path a DiskStore.
  Result<std::unique_ptr<ObjectStore>> open(const StoreAddress& address);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tern
