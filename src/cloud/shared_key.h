// Azure Storage's Shared Key: requests signed with an account's key.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
#pragma once

#include <string>

#include "core/bytes.h"
#include "core/http_client.h"

namespace tern {

struct SharedKey {
  std::string account;
  Bytes key;  // decoded; a secret
};

// What is signed: the verb, eleven headers by their place, all x-ms- headers and the resource with
// its query, one to a line. Content-Length is that of the body, and empty where there is none.
std::string shared_key_text(const std::string& account, const HttpRequest& request);

// Adds the Authorization header. The request is complete: x-ms-date and x-ms-version are in it, and
// whatever changes after this makes the signature wrong.
void sign_with_shared_key(const SharedKey& key, HttpRequest& request);

// Every %XX as its byte; what is no %XX stays.
std::string percent_decode(std::string_view text);

}  // namespace tern
