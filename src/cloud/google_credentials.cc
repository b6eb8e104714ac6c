#include "cloud/google_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cloud/gcs_json.h"
#include "cloud/transport.h"

namespace tern {
namespace {

using Kind = GoogleIdentity::Kind;
using std::chrono::seconds;

// Six seconds of waits in all; for a metadata server, which may not exist, half a second.
constexpr int kAttempts = 6;
constexpr int kMetadataAttempts = 3;
constexpr Milliseconds kFirstWait{200};
constexpr seconds kRefreshEarly{300};
constexpr seconds kPauseAfterFailure{2};

HttpOptions http_options(Kind kind, const std::string& certificates) {
  // Where there is no metadata server, its name must not cost a person's patience.
  const bool is_metadata = kind == Kind::metadata;
  return {.connections_max = 2,
          .connect_limit = Milliseconds(is_metadata ? 1500 : 5000),
          .stall_limit = Milliseconds(is_metadata ? 3000 : 10'000),
          .certificates = certificates,
          .proxies = !is_metadata};
}

}  // namespace

GoogleCredentials::GoogleCredentials(GoogleIdentity identity, std::string certificates,
                                     Clock& clock)
    : identity_(std::move(identity)), certificates_(std::move(certificates)), clock_(clock) {}

Result<HttpAnswer> GoogleCredentials::exchange(const HttpRequest& request) {
  // About once an hour, so no connection is kept.
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpClient> http,
                   HttpClient::create(http_options(identity_.kind, certificates_)));
  const int attempts = identity_.kind == Kind::metadata ? kMetadataAttempts : kAttempts;
  for (int attempt = 1;; ++attempt) {
    Result<HttpAnswer> answer = http->send(request);
    const bool may_work = answer ? judge_status(answer->status) != Verdict::done
                                 : answer.error().code == Code::unavailable;
    if (!may_work || attempt == attempts) return answer;
    clock_.wait_for(kFirstWait * (1 << (attempt - 1)), {});
  }
}

Result<GoogleToken> GoogleCredentials::fetch() {
  const int64_t unix_ms = clock_.unix_ms();
  ASSIGN_OR_RETURN(TokenRequest made, make_token_request(identity_, unix_ms));
  made.request.body = made.form;
  const Result<HttpAnswer> answer = exchange(made.request);
  if (answer) return read_token_answer(*answer, identity_, unix_ms);
  const bool is_first = expires_at_ == Nanoseconds(0);
  if (identity_.kind == Kind::metadata && is_first && answer.error().code == Code::unavailable) {
    return fail(Code::failed_precondition,
                fmt::format("no Google credentials: {}, and no metadata server answers ({}); set "
                            "GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, "
                            "or run 'gcloud auth application-default login'",
                            identity_.looked, answer.error().message));
  }
  return answer.error().at("fetch an access token");
}

Result<std::string> GoogleCredentials::token(const std::string& rejected) {
  if (identity_.kind == Kind::anonymous) return std::string();
  MutexLock lock(mutex_);
  const Nanoseconds now = clock_.now();
  if (!rejected.empty() && rejected == token_) token_.clear();
  const bool is_alive = !token_.empty() && now < expires_at_;
  if (is_alive && now < refresh_at_) return token_;
  if (!is_alive && failure_ && now < failure_until_) return *failure_;

  const Result<GoogleToken> fetched = fetch();
  if (fetched && fetched->text != rejected) {
    token_ = fetched->text;
    failure_.reset();
    expires_at_ = clock_.now() + fetched->life;
    // A token that was old when it was given is used for half of what is left.
    const Nanoseconds life = fetched->life;
    refresh_at_ = expires_at_ - std::min<Nanoseconds>(kRefreshEarly, life / 2);
    return token_;
  }
  // The metadata server repeats its token until shortly before its end, also a refused one.
  if (fetched) return fetched->text;
  if (is_alive) {
    refresh_at_ = clock_.now() + kPauseAfterFailure;
    return token_;
  }
  failure_ = fetched.error();
  failure_until_ = clock_.now() + kPauseAfterFailure;
  return *failure_;
}

Result<std::string> GoogleCredentials::description() {
  if (identity_.kind != Kind::metadata) return identity_.source;
  HttpRequest request;
  request.url = identity_.metadata_url + "/email";
  request.headers.push_back({"Metadata-Flavor", "Google"});
  const Result<HttpAnswer> answer = exchange(request);
  if (!answer || answer->status != 200 || answer->header("Metadata-Flavor") != "Google") {
    // The token's error says where it was looked and what to do.
    RETURN_IF_ERROR(token());
    return identity_.source;
  }
  return fmt::format("{} ({})", identity_.source, shown_text(answer->body));
}

}  // namespace tern
