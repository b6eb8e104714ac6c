#include "cloud/sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include "core/clock.h"
#include "core/crypto.h"
#include "core/hash.h"

namespace tern {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

struct UrlParts {
  std::string_view scheme;
  std::string_view authority;
  std::string_view path;   // with its slash; empty if there is none
  std::string_view query;  // without its question mark
};

UrlParts split_url(std::string_view url) {
  UrlParts parts;
  const size_t colon = std::min(url.find("://"), url.size());
  parts.scheme = url.substr(0, colon);
  url.remove_prefix(std::min(colon + 3, url.size()));
  const size_t path = std::min(url.find_first_of("/?"), url.size());
  parts.authority = url.substr(0, path);
  url.remove_prefix(path);
  const size_t question = std::min(url.find('?'), url.size());
  parts.path = url.substr(0, question);
  if (question < url.size()) parts.query = url.substr(question + 1);
  return parts;
}

// Sorted by name, then value; each with its '='.
std::string canonical_query(std::string_view query) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const size_t equals = std::min(pair.find('='), pair.size());
    pairs.emplace_back(pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size())));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
  }
  std::sort(pairs.begin(), pairs.end());
  std::string canonical;
  for (const auto& [name, value] : pairs) {
    if (!canonical.empty()) canonical += '&';
    canonical += fmt::format("{}={}", name, value);
  }
  return canonical;
}

// Without blanks at its ends, and one for many inside.
std::string trimmed(std::string_view value) {
  std::string result;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank) result += c;
    if (blank && !result.empty() && result.back() != ' ') result += ' ';
  }
  if (result.ends_with(' ')) result.pop_back();
  return result;
}

struct CanonicalHeaders {
  std::string lines;
  std::string names;
};

CanonicalHeaders canonical_headers(const HttpRequest& request) {
  std::map<std::string, std::string> values = {{"host", host_header(request.url)}};
  for (const HttpHeader& header : request.headers) {
    std::string& value = values[lower_case(header.name)];
    if (!value.empty()) value += ',';
    value += trimmed(header.value);
  }
  CanonicalHeaders canonical;
  for (const auto& [name, value] : values) {
    canonical.lines += fmt::format("{}:{}\n", name, value);
    canonical.names += (canonical.names.empty() ? "" : ";") + name;
  }
  return canonical;
}

BytesView as_bytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest signing_key(const AwsKeys& keys, std::string_view day, const AwsScope& scope) {
  const Digest by_day = hmac_sha256("AWS4" + keys.secret_access_key, day);
  const Digest by_region = hmac_sha256(as_bytes(by_day), scope.region);
  const Digest by_service = hmac_sha256(as_bytes(by_region), scope.service);
  return hmac_sha256(as_bytes(by_service), "aws4_request");
}

// "20130524T000000Z"
std::string amz_date(int64_t unix_ms) {
  std::string date;
  for (const char c : format_utc(unix_ms)) {
    if (c == '.') break;
    if (c != '-' && c != ':') date += c;
  }
  return date + 'Z';
}

}  // namespace

std::string host_header(std::string_view url) {
  const UrlParts parts = split_url(url);
  std::string host = lower_case(parts.authority);
  const std::string_view port = lower_case(parts.scheme) == "http" ? ":80" : ":443";
  if (host.ends_with(port)) host.resize(host.size() - port.size());
  return host;
}

void sign_v4(HttpRequest& request, const AwsKeys& keys, const AwsScope& scope, int64_t unix_ms,
             std::string_view payload_hash) {
  const std::string date = amz_date(unix_ms);
  const std::string day = date.substr(0, 8);
  request.headers.push_back({"x-amz-date", date});
  if (!keys.session_token.empty()) {
    request.headers.push_back({"x-amz-security-token", keys.session_token});
  }
  const UrlParts url = split_url(request.url);
  const CanonicalHeaders headers = canonical_headers(request);
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, url.path.empty() ? "/" : url.path,
                  canonical_query(url.query), headers.lines, headers.names, payload_hash);
  const std::string credential_scope =
      fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, credential_scope,
                                          to_hex(sha256(canonical)));
  const Digest key = signing_key(keys, day, scope);
  const std::string signature = to_hex(hmac_sha256(as_bytes(key), to_sign));
  request.headers.push_back(
      {"Authorization",
       fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                   keys.access_key_id, credential_scope, headers.names, signature)});
}

}  // namespace tern
