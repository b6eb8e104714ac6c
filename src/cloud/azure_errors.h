// What Azure Storage's answers mean, for a request's next attempt and for people.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
#pragma once

#include <cstdint>
#include <string>

#include "cloud/azure_credentials.h"
#include "cloud/transport.h"
#include "core/http_client.h"
#include "core/result.h"

namespace tern {

// "BlobNotFound" and the like: the header's, else the body's; empty if neither has one.
std::string azure_error_code(const HttpAnswer& answer);

// Whether it comes from Azure Storage, or something that stands in for it, at all.
bool is_azure_answer(const HttpAnswer& answer);

Verdict judge_azure(const HttpAnswer& answer, AzureCredentials::Kind kind);

// What was asked, for messages.
struct AzureQuestion {
  std::string doing;      // "read 'a/b'"
  std::string container;  // "az://account/container"
  std::string endpoint;
  std::string credentials;  // AzureCredentials::shown()
  std::string sas_end;
  AzureCredentials::Kind kind;
  int64_t unix_ms = 0;  // by this machine's clock, when the answer came
};

// For an answer that is not the one hoped for. Codes are Bucket's. Nothing of the answer's text is
// repeated: where a signature is refused, Azure repeats what was signed.
Error azure_error(const AzureQuestion& question, const HttpAnswer& answer);

}  // namespace tern
