#include "cloud/aws_metadata.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cloud/safe_url.h"
#include "core/http_client.h"
#include "core/iso_time.h"

namespace tern {
namespace {

constexpr int64_t kAnswerBytesMax = 64 << 10;
constexpr int kAttempts = 2;  // a third helps nobody: outside AWS each takes the connect limit
constexpr Milliseconds kWaitBetween{200};

Result<std::unique_ptr<HttpClient>> make_client() {
  return HttpClient::create({.connections_max = 1,
                             .connect_limit = Milliseconds(1000),
                             .stall_limit = Milliseconds(2000),
                             .proxies = false});
}

// Again after 5xx, 429 and broken connections; the last outcome.
Result<HttpAnswer> ask(HttpClient& http, const HttpRequest& request, Clock& clock) {
  for (int attempt = 1;; ++attempt) {
    HttpRequest next = request;
    next.answer_bytes_max = kAnswerBytesMax;
    Result<HttpAnswer> answer = http.send(std::move(next));
    const bool may_help = answer ? answer->status >= 500 || answer->status == 429
                                 : answer.error().code == Code::unavailable;
    if (!may_help || attempt == kAttempts) return answer;
    if (!clock.wait_for(kWaitBetween, {})) return answer;
  }
}

// An answer other than 200, as an error.
Error refusal(int status, std::string_view service) {
  if (status == 404) {
    return fail(Code::failed_precondition,
                fmt::format("{} knows no role (status 404); attach one to this machine", service));
  }
  if (status == 401 || status == 403) {
    return fail(Code::permission_denied,
                fmt::format("{} refuses to give keys (status {}); see whether it is switched off "
                            "for this machine, or its token is an old one",
                            service, status));
  }
  const Code code = status >= 500 || status == 429 ? Code::unavailable : Code::failed_precondition;
  return fail(code,
              fmt::format("{} answers with status {}; try again in a moment", service, status));
}

std::string string_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The first line, if it can be part of a path.
std::optional<std::string> role_name(BytesView body) {
  std::string name(body.substr(0, body.find_first_of("\r\n")));
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("+=,.@-_").find(c) != std::string_view::npos;
  });
  if (name.empty() || name.size() > 128 || !plain) return std::nullopt;
  return name;
}

// Loopback, link-local, or the one address outside both that AWS uses (EKS over IPv6).
bool is_near(const std::string& host) {
  if (is_loopback(host)) return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) {
    return ntohl(four.s_addr) >> 16 == 0xA9FE;
  }
  in6_addr six{};
  in6_addr eks{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) != 1) return false;
  return IN6_IS_ADDR_LINKLOCAL(&six) ||
         (::inet_pton(AF_INET6, "fd00:ec2::23", &eks) == 1 && IN6_ARE_ADDR_EQUAL(&six, &eks));
}

}  // namespace

Status check_container_url(const std::string& url) {
  const std::optional<UrlHost> host = host_of_url(url);
  if (!host || (host->scheme != "https" && host->scheme != "http")) {
    return fail(Code::invalid,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI is not an address; give one "
                "like http://127.0.0.1:8080/keys");
  }
  if (host->scheme == "https" || is_near(host->name)) return {};
  return fail(Code::invalid,
              fmt::format("AWS_CONTAINER_CREDENTIALS_FULL_URI names the host {}, which is not this "
                          "machine: keys would travel in the clear. Use https, or a loopback or "
                          "link-local address",
                          host->name));
}

Result<AwsRoleKeys> parse_role_keys(BytesView text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(Code::corrupt, "the answer with the role's keys is not JSON");
  const std::string code = string_in(json, "Code");
  if (!code.empty() && code != "Success") {
    return fail(Code::failed_precondition,
                "the role gives no keys just now; check that it exists and trusts this service");
  }
  AwsRoleKeys found;
  found.keys = {string_in(json, "AccessKeyId"), string_in(json, "SecretAccessKey"),
                string_in(json, "Token")};
  const std::optional<int64_t> expires = parse_iso_time(string_in(json, "Expiration"));
  if (found.keys.access_key_id.empty() || found.keys.secret_access_key.empty() || !expires) {
    return fail(Code::corrupt,
                "the answer with the role's keys lacks AccessKeyId, SecretAccessKey "
                "or Expiration");
  }
  if (!is_header_text(found.keys.access_key_id) || !is_header_text(found.keys.session_token)) {
    return fail(Code::corrupt, "the answer with the role's keys has bytes that no key has");
  }
  found.expires_unix_ms = *expires;
  return found;
}

Result<AwsRoleKeys> fetch_container_keys(const ContainerService& service, Clock& clock) {
  RETURN_IF_ERROR(check_container_url(service.url));
  if (!is_header_text(service.authorization)) {
    return fail(Code::invalid,
                "the container's authorization token has blanks or control "
                "characters; check AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpClient> http, make_client());
  HttpRequest request{.url = service.url};
  if (!service.authorization.empty()) {
    request.headers.push_back({"Authorization", service.authorization});
  }
  constexpr std::string_view kName = "the container's credential service";
  Result<HttpAnswer> answer = ask(*http, request, clock);
  if (!answer) return answer.error().at(kName);
  if (answer->status != 200) return refusal(answer->status, kName);
  return parse_role_keys(answer->body).at(kName);
}

Result<AwsRoleKeys> fetch_instance_keys(const std::string& endpoint, Clock& clock) {
  const std::string service = fmt::format("the instance metadata service at {}", endpoint);
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpClient> http, make_client());
  const HttpRequest for_token{.method = "PUT",
                              .url = endpoint + "/latest/api/token",
                              .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}};
  Result<HttpAnswer> token = ask(*http, for_token, clock);
  if (!token && token.error().code == Code::unavailable) {
    return fail(Code::not_found, token.error().at(service).message);
  }
  if (!token) return token.error().at(service);
  if (token->status != 200) return refusal(token->status, service);
  if (token->body.empty() || !is_header_text(token->body)) {
    return fail(Code::corrupt, fmt::format("{} gives a token that is none", service));
  }
  HttpRequest for_role{.url = endpoint + "/latest/meta-data/iam/security-credentials/",
                       .headers = {{"X-aws-ec2-metadata-token", token->body}}};
  Result<HttpAnswer> roles = ask(*http, for_role, clock);
  if (!roles) return roles.error().at(service);
  if (roles->status != 200) return refusal(roles->status, service);
  const std::optional<std::string> role = role_name(roles->body);
  if (!role) return fail(Code::corrupt, fmt::format("{} names a role that is none", service));
  for_role.url += *role;
  Result<HttpAnswer> keys = ask(*http, for_role, clock);
  if (!keys) return keys.error().at(service);
  if (keys->status != 200) return refusal(keys->status, service);
  Result<AwsRoleKeys> found = parse_role_keys(keys->body).at(service);
  if (found) found->role = *role;
  return found;
}

}  // namespace tern
