// Requests to one container of Azure Blob storage: addressed, authorized, sent, judged.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cloud/azure_credentials.h"
#include "cloud/bucket.h"
#include "cloud/transport.h"

namespace tern {

// One request; what every one has (date, version, authorization) comes by itself.
struct AzureRequest {
  std::string doing;  // for messages: "read 'a/b'"
  std::string method = "GET";
  std::string name = {};  // of an object; empty: the container itself
  std::vector<std::pair<std::string, std::string>> query = {};  // not encoded yet
  std::vector<HttpHeader> headers = {};
  BytesView body = {};  // must outlive the call
  int64_t answer_bytes_max = int64_t{64} << 20;
};

// How many parts are asked for before looking whether one has failed: enough that waiting for the
// last of them costs little.
inline size_t wave_of(const BucketOptions& options) {
  return static_cast<size_t>(std::clamp<int64_t>(options.in_flight_max, 1, 10'000)) * 4;
}

// Owned by its store. Safe from any thread. The transport outlives it.
class AzureClient {
 public:
  // Called for each attempt.
  using Describe = std::function<AzureRequest()>;
  // Sees every answer first; may take its body away.
  using Look = std::function<void(HttpAnswer&)>;

  AzureClient(const StoreAddress& address, std::unique_ptr<AzureCredentials> credentials,
              CloudTransport& transport);

  // For a request that is best made when its turn comes. What it refers to must outlive the
  // sending.
  CloudRequest prepare(Describe describe, Look look = nullptr);

  // Errors are the transport's, with what was to be done. Answers from what is not Azure Storage
  // are errors too; all others are answers, also those that say no.
  Result<HttpAnswer> send(const AzureRequest& request);
  // Each as send(), in their order. `doing` is what they all do, for messages.
  std::vector<Result<HttpAnswer>> send_all(std::span<const CloudRequest> requests,
                                           const std::string& doing);

  // For parts of a whole: in waves of `wave`, and nothing more once one has failed. `check` is
  // given each answer with its place.
  Status send_parts(std::span<const CloudRequest> requests, const std::string& doing, size_t wave,
                    const std::function<Status(size_t, const HttpAnswer&)>& check);

  // For an answer that is not the one hoped for.
  Error error_of(const std::string& doing, const HttpAnswer& answer);

  AzureCredentials& credentials() { return *credentials_; }

 private:
  Result<HttpRequest> make(const AzureRequest& request, bool refresh);
  Result<HttpAnswer> checked(Result<HttpAnswer> answer, const std::string& doing);

  const std::string container_;  // "az://account/container"
  const std::string url_;        // of the container
  const std::unique_ptr<AzureCredentials> credentials_;
  CloudTransport& transport_;
};

}  // namespace tern
