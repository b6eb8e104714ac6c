// One exchange with a token endpoint: what is sent, and what the answer means. Nothing is sent
// here, so that every answer can be tried.
#pragma once

#include <cstdint>
#include <string>

#include "cloud/google_identity.h"
#include "core/clock.h"
#include "core/http_client.h"
#include "core/result.h"

namespace tern {

struct GoogleToken {
  std::string text;  // secret
  Milliseconds life{0};
};

// A request without its body, which is a form and secret. REQUIRES: not anonymous.
struct TokenRequest {
  HttpRequest request;
  std::string form;  // empty: a GET
};
Result<TokenRequest> make_token_request(const GoogleIdentity& identity, int64_t unix_ms);

// `permission_denied`: Google does not know us (any more); `failed_precondition`: this machine's
// clock is wrong, or what answered is no token endpoint; `unavailable`: it may work in a moment.
Result<GoogleToken> read_token_answer(const HttpAnswer& answer, const GoogleIdentity& identity,
                                      int64_t unix_ms);

}  // namespace tern
