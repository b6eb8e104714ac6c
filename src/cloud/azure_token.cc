#include "cloud/azure_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace tern {
namespace {

constexpr std::string_view kResource = "https://storage.azure.com/";
constexpr char kMetadataHost[] = "http://169.254.169.254";
constexpr Milliseconds kRenewBefore{5 * 60'000};
constexpr Milliseconds kAskAgainAfter{30'000};
constexpr Milliseconds kPauseWithoutToken{2'000};
// A token that says more is still renewed after this; Azure's live for a day at most.
constexpr int64_t kLifetimeMaxS = 7 * 86'400;
constexpr int kAttempts = 3;
constexpr int kAttemptsUnknown = 2;  // outside Azure each takes the connect limit

std::string variable(const CloudSurroundings& surroundings, const char* name) {
  return surroundings.variable ? surroundings.variable(name).value_or("") : "";
}

// A number, also in quotes, as these services write it.
std::optional<int64_t> number_of(const nlohmann::json& answer, const char* name) {
  const auto found = answer.find(name);
  if (found == answer.end()) return std::nullopt;
  if (found->is_number_integer()) return found->get<int64_t>();
  if (!found->is_string()) return std::nullopt;
  const std::string& text = found->get_ref<const std::string&>();
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

Error bad_answer(std::string_view problem) {
  return fail(Code::corrupt, fmt::format("the answer to a question for a token {}; look what "
                                         "answers there in the place of Azure's identity service",
                                         problem));
}

// Statuses with which the metadata service asks for patience.
bool asks_for_patience(int status) {
  return status == 404 || status == 410 || status == 429 || status >= 500;
}

}  // namespace

TokenSource find_token_source(const CloudSurroundings& surroundings) {
  const std::string resource = "resource=" + percent_encode(kResource);
  const std::string client = variable(surroundings, "AZURE_CLIENT_ID");
  const auto named = [&](const char* parameter) {
    return client.empty() ? "" : fmt::format("&{}={}", parameter, percent_encode(client));
  };
  const std::string shown_client =
      client.empty() ? "" : fmt::format(", client {} of AZURE_CLIENT_ID", client);
  const std::string endpoint = variable(surroundings, "IDENTITY_ENDPOINT");
  const std::string header = variable(surroundings, "IDENTITY_HEADER");
  if (!endpoint.empty() && !header.empty()) {
    return {fmt::format("{}?api-version=2019-08-01&{}{}", endpoint, resource, named("client_id")),
            {"X-IDENTITY-HEADER", header},
            "the identity service of IDENTITY_ENDPOINT" + shown_client};
  }
  const std::string ml_endpoint = variable(surroundings, "MSI_ENDPOINT");
  const std::string secret = variable(surroundings, "MSI_SECRET");
  if (!ml_endpoint.empty() && !secret.empty()) {
    return {fmt::format("{}?api-version=2017-09-01&{}{}", ml_endpoint, resource, named("clientid")),
            {"secret", secret},
            "the identity service of MSI_ENDPOINT" + shown_client};
  }
  std::string host = variable(surroundings, "AZURE_POD_IDENTITY_AUTHORITY_HOST");
  if (host.empty()) host = kMetadataHost;
  while (host.ends_with('/')) host.pop_back();
  return {fmt::format("{}/metadata/identity/oauth2/token?api-version=2018-02-01&{}{}", host,
                      resource, named("client_id")),
          {"Metadata", "true"},
          fmt::format("the instance metadata service at {}{}", host, shown_client)};
}

Result<AccessToken> parse_token_answer(BytesView json, int64_t unix_ms) {
  const auto answer = nlohmann::json::parse(json, nullptr, false);
  if (!answer.is_object()) return bad_answer("is not a JSON object");
  const auto token = answer.find("access_token");
  if (token == answer.end() || !token->is_string()) return bad_answer("has no access_token");
  AccessToken found{token->get<std::string>()};
  if (found.text.empty() || !is_header_text(found.text))
    return bad_answer("has an access_token of odd characters");
  // How long, where it is told, does not depend on this machine's calendar.
  std::optional<int64_t> lifetime_s = number_of(answer, "expires_in");
  if (!lifetime_s) {
    const std::optional<int64_t> end_s = number_of(answer, "expires_on");
    if (!end_s) return bad_answer("does not say when the token ends");
    lifetime_s = std::clamp<int64_t>(*end_s, 0, int64_t{1} << 40) - unix_ms / 1000;
  }
  found.lifetime = std::chrono::seconds(std::clamp<int64_t>(*lifetime_s, 0, kLifetimeMaxS));
  return found;
}

ManagedIdentity::ManagedIdentity(TokenSource source, Clock& clock)
    : source_(std::move(source)), clock_(clock) {}

Result<std::string> ManagedIdentity::token(bool refresh) {
  MutexLock lock(mutex_);
  const Nanoseconds now = clock_.now();
  const bool holds = !token_.empty() && now < ends_at_;
  const bool is_away = problem_ && problem_->code == Code::unavailable;
  const Milliseconds pause = is_away && !holds ? kPauseWithoutToken : kAskAgainAfter;
  const bool asked_lately = asked_at_ && now - *asked_at_ < pause;
  if (holds && (asked_lately || (!refresh && now < ends_at_ - kRenewBefore))) return token_;
  if (asked_lately && problem_) return *problem_;
  const Result<AccessToken> fresh = ask();
  asked_at_ = clock_.now();
  if (!fresh) {
    problem_ = fresh.error();
    if (holds && !refresh) return token_;
    return *problem_;
  }
  problem_.reset();
  token_ = fresh->text;
  ends_at_ = *asked_at_ + fresh->lifetime;
  return token_;
}

Result<AccessToken> ManagedIdentity::ask() {
  ASSIGN_OR_RETURN(const HttpAnswer answer, ask_until_answered());
  if (answer.status == 200) return parse_token_answer(answer.body, clock_.unix_ms());
  if (asks_for_patience(answer.status)) {
    return fail(Code::unavailable, fmt::format("{} answered with status {}, {} times; try again in "
                                               "a minute",
                                               source_.shown, answer.status, kAttempts));
  }
  return fail(Code::permission_denied,
              fmt::format("{} answered with status {}: this machine has no such managed identity; "
                          "assign one to it (az vm identity assign), and with several set "
                          "AZURE_CLIENT_ID",
                          source_.shown, answer.status));
}

Result<HttpAnswer> ManagedIdentity::ask_until_answered() {
  if (http_ == nullptr) {
    // The service is on the machine itself or one hop away: what takes longer is not there.
    ASSIGN_OR_RETURN(http_, HttpClient::create({.connections_max = 1,
                                                .connect_limit = Milliseconds(2'000),
                                                .stall_limit = Milliseconds(5'000),
                                                .proxies = false}));
  }
  for (int attempt = 1;; ++attempt) {
    Result<HttpAnswer> answer = http_->send(
        {.url = source_.url, .headers = {source_.header}, .answer_bytes_max = int64_t{1} << 20});
    has_answered_ = has_answered_ || answer;
    const int attempts = has_answered_ ? kAttempts : kAttemptsUnknown;
    const bool may_help =
        answer ? asks_for_patience(answer->status) : answer.error().code == Code::unavailable;
    if (!answer && (!may_help || attempt == attempts)) {
      return fail(has_answered_ ? answer.error().code : Code::failed_precondition,
                  fmt::format("{} does not answer ({})", source_.shown, answer.error().message));
    }
    if (!may_help || attempt == attempts) return answer;
    clock_.wait_for(Milliseconds(300) * attempt, {});
  }
}

}  // namespace tern
