#include "cloud/google_jwt.h"

#include <nlohmann/json.hpp>

#include "core/crypto.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLifeS = 3600;

// What a file says may be no UTF-8, at which dump() would throw.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

Result<std::string> sign_jwt(BytesView header, BytesView claims, const std::string& pem) {
  const std::string text = base64url(header) + "." + base64url(claims);
  ASSIGN_OR_RETURN(const Bytes signature, sign_rsa_sha256(pem, text));
  return text + "." + base64url(signature);
}

Result<std::string> make_service_account_jwt(const ServiceAccountClaim& claim) {
  Json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (!claim.private_key_id.empty()) header["kid"] = claim.private_key_id;
  const Json claims = {{"iss", claim.email},
                       {"scope", claim.scope},
                       {"aud", claim.audience},
                       {"iat", claim.issued_unix_s},
                       {"exp", claim.issued_unix_s + kLifeS}};
  return sign_jwt(dump(header), dump(claims), claim.private_key);
}

}  // namespace tern
