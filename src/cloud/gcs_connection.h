// Requests to one bucket of Google Cloud Storage: addresses, tokens, and what an answer means.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cloud/gcs_errors.h"
#include "cloud/google_credentials.h"
#include "cloud/transport.h"

namespace tern {

struct GcsCall {
  std::string method = "GET";
  std::string path;  // percent-encoded, from "/storage/v1" on, with its query
  std::vector<HttpHeader> headers = {};
  BytesView body = {};  // outlives the call
  int64_t answer_bytes_max = int64_t{16} << 20;
};

// Owned by the store of that bucket, which outlives every CloudRequest made here; the transport
// outlives both. Safe from any thread. send() blocks.
class GcsConnection {
 public:
  // `endpoint` is "https://storage.googleapis.com" or another, without a slash at its end.
  GcsConnection(std::string endpoint, std::string bucket,
                std::unique_ptr<GoogleCredentials> credentials, CloudTransport& transport);

  // For transport().send_all(), or to be given another judge.
  CloudRequest request(GcsCall call);
  Result<HttpAnswer> send(GcsCall call) { return transport_.send(request(std::move(call))); }

  std::string bucket_path() const;                         // /storage/v1/b/bucket
  std::string object_path(const std::string& name) const;  // /storage/v1/b/bucket/o/name
  std::string upload_path() const;                         // /upload/storage/v1/b/bucket/o

  Error error_of(const HttpAnswer& answer, const GcsAction& action,
                 const std::string& object = {}) const;
  Error not_a_store(const HttpAnswer& answer, const std::string& object = {}) const;

  const std::string& bucket() const { return bucket_; }
  CloudTransport& transport() { return transport_; }
  GoogleCredentials& credentials() { return *credentials_; }

 private:
  GcsPlace place(const std::string& object) const;

  const std::string endpoint_;
  const std::string bucket_;
  const std::unique_ptr<GoogleCredentials> credentials_;
  CloudTransport& transport_;
};

}  // namespace tern
