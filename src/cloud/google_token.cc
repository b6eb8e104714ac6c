#include "cloud/google_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cloud/gcs_json.h"
#include "cloud/google_jwt.h"
#include "core/http_date.h"
#include "core/web_request.h"

namespace tern {
namespace {

using Json = nlohmann::json;
using Kind = GoogleIdentity::Kind;

constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr int64_t kAnswerBytesMax = 64 << 10;
constexpr size_t kTokenBytesMax = 16 << 10;
constexpr int64_t kLifeMaxS = 12 * 3600;
// Google takes statements up to five minutes old or early.
constexpr int64_t kSkewMaxMs = 5 * 60 * 1000;

// It becomes a header, so it may hold nothing that ends one.
bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= kTokenBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

Error no_token_endpoint(const GoogleIdentity& identity, int status) {
  return fail(Code::failed_precondition,
              fmt::format("{} answered (status {}) what no token endpoint of Google answers; check "
                          "'token_uri' of the credentials, GCE_METADATA_HOST and your proxies",
                          shown_url(identity.token_url), status));
}

std::string text_of_skew(int64_t ahead_ms) {
  return fmt::format("this machine's clock is {} minutes {} Google's", std::abs(ahead_ms) / 60'000,
                     ahead_ms > 0 ? "ahead of" : "behind");
}

Error refused_grant(const HttpAnswer& answer, const GoogleIdentity& identity,
                    const std::string& said, int64_t unix_ms) {
  const std::optional<int64_t> theirs = parse_http_date(answer.header("Date"));
  const int64_t ahead_ms = theirs ? unix_ms - *theirs : 0;
  const bool blames_time =
      said.find("iat") != std::string::npos || said.find("timeframe") != std::string::npos;
  if (identity.kind == Kind::service_account && (std::abs(ahead_ms) > kSkewMaxMs || blames_time)) {
    return fail(Code::failed_precondition,
                fmt::format("Google refuses the signed statement of {} ({}); {}: set the clock "
                            "(for example 'sudo chronyc makestep') and try again",
                            identity.source, said,
                            std::abs(ahead_ms) > kSkewMaxMs ? text_of_skew(ahead_ms)
                                                            : "this machine's clock may be wrong"));
  }
  const char* next = identity.kind == Kind::service_account
                         ? "the key may have been deleted: make a new one and set "
                           "GOOGLE_APPLICATION_CREDENTIALS to its file"
                         : "the login has ended: run 'gcloud auth application-default login'";
  return fail(Code::permission_denied, fmt::format("Google refuses {} (invalid_grant: {}); {}",
                                                   identity.source, said, next));
}

Error read_refusal(const HttpAnswer& answer, const GoogleIdentity& identity, int64_t unix_ms) {
  const std::string where = shown_url(identity.token_url);
  if (answer.status == 429 || answer.status >= 500) {
    return fail(Code::unavailable,
                fmt::format("{} answered {}; try again in a moment", where, answer.status));
  }
  if (identity.kind == Kind::metadata) {
    if (answer.status != 404) return no_token_endpoint(identity, answer.status);
    return fail(Code::failed_precondition,
                fmt::format("this machine has no service account ({} answered 404), and {}; attach "
                            "one to the machine, or set GOOGLE_APPLICATION_CREDENTIALS",
                            where, identity.looked));
  }
  const std::optional<Json> json = parse_small_json(answer.body);
  const std::string error = json ? shown_text(text_member(*json, "error")) : "";
  if (error.empty()) return no_token_endpoint(identity, answer.status);
  const std::string said = shown_text(text_member(*json, "error_description"));
  if (error == "invalid_grant") return refused_grant(answer, identity, said, unix_ms);
  return fail(Code::permission_denied,
              fmt::format("Google gives no token to {} ({}: {}); check the credentials file, or "
                          "make it anew",
                          identity.source, error, said));
}

}  // namespace

Result<TokenRequest> make_token_request(const GoogleIdentity& identity, int64_t unix_ms) {
  TokenRequest made;
  made.request.url = identity.token_url;
  made.request.answer_bytes_max = kAnswerBytesMax;
  if (identity.kind == Kind::metadata) {
    made.request.headers.push_back({"Metadata-Flavor", "Google"});
    return made;
  }
  made.request.method = "POST";
  made.request.headers.push_back({"Content-Type", "application/x-www-form-urlencoded"});
  if (identity.kind == Kind::authorized_user) {
    made.form =
        fmt::format("grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                    percent_encode(identity.client_id), percent_encode(identity.client_secret),
                    percent_encode(identity.refresh_token));
    return made;
  }
  const Result<std::string> jwt =
      make_service_account_jwt({.email = identity.email,
                                .private_key = identity.private_key,
                                .private_key_id = identity.private_key_id,
                                .audience = identity.token_url,
                                .scope = kScope,
                                .issued_unix_s = unix_ms / 1000});
  if (!jwt) {
    return fail(Code::corrupt, fmt::format("the 'private_key' of {} is no RSA key; download the "
                                           "service account's key again",
                                           identity.source));
  }
  made.form = "grant_type=" + percent_encode("urn:ietf:params:oauth:grant-type:jwt-bearer") +
              "&assertion=" + *jwt;
  return made;
}

Result<GoogleToken> read_token_answer(const HttpAnswer& answer, const GoogleIdentity& identity,
                                      int64_t unix_ms) {
  if (answer.status != 200) return read_refusal(answer, identity, unix_ms);
  // Any web server may answer to that name; only the real one says this.
  if (identity.kind == Kind::metadata && answer.header("Metadata-Flavor") != "Google") {
    return no_token_endpoint(identity, answer.status);
  }
  const std::optional<Json> json = parse_small_json(answer.body);
  const std::string token = json ? text_member(*json, "access_token") : "";
  if (!is_token(token)) return no_token_endpoint(identity, answer.status);
  const auto life = json->find("expires_in");
  const bool is_number = life != json->end() && life->is_number_integer();
  const int64_t life_s = is_number ? life->get<int64_t>() : 0;
  if (life_s <= 0) return no_token_endpoint(identity, answer.status);
  return GoogleToken{token, std::chrono::seconds(std::min(life_s, kLifeMaxS))};
}

}  // namespace tern
