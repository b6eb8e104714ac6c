#include "cloud/shared_key.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/crypto.h"

namespace tern {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string header_of(const HttpRequest& request, std::string_view name) {
  for (const HttpHeader& header : request.headers) {
    if (lower(header.name) == name) return std::string(trimmed(header.value));
  }
  return {};
}

// "x-ms-date:...\nx-ms-version:...\n"
std::string canonical_headers(const HttpRequest& request) {
  std::vector<std::pair<std::string, std::string>> ours;
  for (const HttpHeader& header : request.headers) {
    std::string name = lower(header.name);
    if (name.starts_with("x-ms-")) ours.emplace_back(std::move(name), trimmed(header.value));
  }
  std::sort(ours.begin(), ours.end());
  std::string text;
  for (const auto& [name, value] : ours) text += name + ":" + value + "\n";
  return text;
}

// "comp:list" and the like, each on a line of its own that begins with '\n'. Names are in lower
// case, values decoded, several of one name sorted and joined by commas.
std::string canonical_query(std::string_view query) {
  std::map<std::string, std::vector<std::string>> values;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    if (one.empty()) continue;
    const size_t equals = std::min(one.find('='), one.size());
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    values[lower(percent_decode(one.substr(0, equals)))].push_back(percent_decode(value));
  }
  std::string text;
  for (auto& [name, all] : values) {
    std::sort(all.begin(), all.end());
    text += "\n" + name + ":";
    for (size_t i = 0; i < all.size(); ++i) text += (i == 0 ? "" : ",") + all[i];
  }
  return text;
}

// "/account/container/blob" and the query's lines. At an emulator, whose addresses have the account
// in their path, it stands there twice.
std::string canonical_resource(const std::string& account, std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  const size_t query = std::min(url.find('?', host), url.size());
  const size_t path = std::min(url.find('/', host), query);
  std::string text = "/" + account;
  text += path == query ? "/" : url.substr(path, query - path);
  return text + canonical_query(url.substr(std::min(query + 1, url.size())));
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string percent_decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool may_be = text[i] == '%' && i + 2 < text.size();
    const int high = may_be ? hex_value(text[i + 1]) : -1;
    const int low = may_be ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string shared_key_text(const std::string& account, const HttpRequest& request) {
  const std::string length = request.body.empty() ? "" : std::to_string(request.body.size());
  std::string text = request.method + "\n";
  text += header_of(request, "content-encoding") + "\n";
  text += header_of(request, "content-language") + "\n";
  text += length + "\n";
  for (const char* name : {"content-md5", "content-type", "date", "if-modified-since", "if-match",
                           "if-none-match", "if-unmodified-since", "range"}) {
    text += header_of(request, name) + "\n";
  }
  return text + canonical_headers(request) + canonical_resource(account, request.url);
}

void sign_with_shared_key(const SharedKey& key, HttpRequest& request) {
  const Digest signature = hmac_sha256(key.key, shared_key_text(key.account, request));
  const BytesView bytes(reinterpret_cast<const char*>(signature.data()), signature.size());
  request.headers.push_back({"Authorization", "SharedKey " + key.account + ":" + base64(bytes)});
}

}  // namespace tern
