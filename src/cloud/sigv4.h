// AWS Signature Version 4, in a request's headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/http_client.h"

namespace tern {

// A key to AWS. Never shown: what may be shown of it is described by aws_credentials.h.
struct AwsKeys {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // of a role; empty for a user's own keys
};

// For whom a signature is good.
struct AwsScope {
  std::string region;
  std::string service = "s3";
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view kEmptyPayloadHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Adds x-amz-date, x-amz-security-token (where there is one) and Authorization. All headers that
// the request has by then are signed, with Host and the query; `payload_hash` is the body's SHA-256
// in hex, or kUnsignedPayload, and S3 wants it as x-amz-content-sha256 as well, which the caller
// sets. The URL's path and query are taken as they are, percent-encoded once and not normalised:
// this is S3's way. REQUIRES: they were encoded by percent_encode().
void sign_v4(HttpRequest& request, const AwsKeys& keys, const AwsScope& scope, int64_t unix_ms,
             std::string_view payload_hash);

// The host of an address as it is sent: in lower case, with its port unless it is the scheme's own.
std::string host_header(std::string_view url);

}  // namespace tern
