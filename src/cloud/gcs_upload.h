// Writing of objects in Google Cloud Storage: small ones in one request, large ones in a resumable
// upload, which goes on after a cut where the store says it stopped.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cloud/bucket.h"
#include "cloud/gcs_connection.h"
#include "cloud/gcs_read.h"

namespace tern {

// The form that carries an object's description and its bytes in one request.
struct MultipartBody {
  std::string content_type;
  Bytes body;
};
MultipartBody make_multipart_body(std::string_view description, BytesView bytes);

// How many bytes a store has of an unfinished upload, from "Range: bytes=0-41" of its answer 308;
// without the header none. Nothing for what is not that.
std::optional<int64_t> stored_bytes_of(const HttpAnswer& answer);

// Safe from any thread; calls block. References outlive it. The store compares the bytes' CRC-32C
// before the object appears, and its answer is compared again. Bytes are sent from where they are,
// those of small objects from one copy.
class GcsUploader {
 public:
  enum class Rule { replace, only_new };

  GcsUploader(GcsConnection& connection, GcsReader& reader, const BucketOptions& options);

  // `already_exists` if the rule is only_new and the name is taken by another write than this one,
  // which knows its own object by its nonce.
  Status upload(const std::string& name, BytesView bytes, Rule rule);

 private:
  struct Write {
    const std::string& name;
    BytesView bytes;
    Rule rule;
    std::string nonce;
    uint32_t checksum;        // CRC-32C of the bytes
    std::string description;  // JSON
  };

  std::string path_of(const char* type, const Write& write) const;
  Result<HttpAnswer> send_whole(const Write& write);
  Result<HttpAnswer> send_in_parts(const Write& write);
  Result<HttpAnswer> send_parts(const std::string& session, const Write& write);
  Result<HttpAnswer> send_part(const std::string& session, BytesView bytes, int64_t at);
  Result<std::string> session_of(const HttpAnswer& answer, const std::string& name) const;
  Status check_stored(const HttpAnswer& answer, const Write& write);
  // For a create that was told so.
  Status taken(const Write& write);
  uint32_t checksum(BytesView bytes) const;

  GcsConnection& connection_;
  GcsReader& reader_;
  const int64_t whole_bytes_max_;
  const int64_t part_bytes_;
  const OnSent on_sent_;
};

}  // namespace tern
