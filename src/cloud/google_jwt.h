// A signed statement about oneself (JSON Web Token, RFC 7519), which Google changes into an access
// token. Signed with RS256 in the compact form of RFC 7515.
#pragma once

#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// base64url(header) "." base64url(claims) "." base64url(signature). Both are JSON, signed to the
// byte. `corrupt` if `pem` is no private key; no message repeats any of it.
Result<std::string> sign_jwt(BytesView header, BytesView claims, const std::string& pem);

struct ServiceAccountClaim {
  std::string email;
  std::string private_key;     // PEM
  std::string private_key_id;  // empty: not said
  std::string audience;        // the address of the token endpoint
  std::string scope;
  int64_t issued_unix_s = 0;  // it is good for an hour from then, the most that Google takes
};

Result<std::string> make_service_account_jwt(const ServiceAccountClaim& claim);

}  // namespace tern
