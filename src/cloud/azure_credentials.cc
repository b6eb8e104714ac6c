#include "cloud/azure_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cloud/safe_url.h"
#include "core/crypto.h"

namespace tern {
namespace {

constexpr char kConnectionString[] = "AZURE_STORAGE_CONNECTION_STRING";
constexpr char kKey[] = "AZURE_STORAGE_KEY";
constexpr char kSas[] = "AZURE_STORAGE_SAS_TOKEN";
constexpr char kAccount[] = "AZURE_STORAGE_ACCOUNT";
constexpr char kEndpoint[] = "AZURE_STORAGE_BLOB_ENDPOINT";
constexpr char kSuffix[] = "core.windows.net";

// What every emulator knows; published, so no secret.
constexpr char kEmulatorAccount[] = "devstoreaccount1";
constexpr char kEmulatorKey[] =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
constexpr char kEmulatorEndpoint[] = "http://127.0.0.1:10000/devstoreaccount1";

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

Error bad_value(std::string_view where, std::string_view problem) {
  return fail(Code::invalid, fmt::format("{} {}; copy it again from the storage account's page in "
                                         "the portal, or unset it",
                                         where, problem));
}

Result<Bytes> decode_key(std::string_view where, const std::string& text) {
  Result<Bytes> key = decode_base64(text);
  if (!key || key->empty()) return bad_value(where, "is not an account key (base64)");
  return key;
}

bool is_plain(char c) { return c > 0x20 && c < 0x7F; }

Result<std::string> check_sas(std::string_view where, std::string text) {
  if (text.starts_with('?')) text.erase(0, 1);
  const bool is_signed = text.starts_with("sig=") || text.find("&sig=") != std::string::npos;
  if (!is_signed || !std::all_of(text.begin(), text.end(), is_plain) ||
      text.find('#') != std::string::npos) {
    return bad_value(where, "is not a SAS token (sv=...&sig=...)");
  }
  return text;
}

std::string host_of(std::string_view url) {
  const size_t begin = url.find("://") + 3;
  if (url.substr(begin).starts_with('[')) {
    return std::string(url.substr(begin, url.find(']', begin) + 1 - begin));
  }
  return std::string(url.substr(begin, url.find_first_of(":/", begin) - begin));
}

bool is_on_this_machine(const std::string& endpoint) {
  const std::optional<UrlHost> host = host_of_url(endpoint);
  return host && is_loopback(host->name);
}

Result<std::string> check_endpoint(std::string_view where, std::string url) {
  while (url.ends_with('/')) url.pop_back();
  const bool is_web = url.starts_with("https://") || url.starts_with("http://");
  if (!is_web || host_of(url).empty() || url.find_first_of("?#@") != std::string::npos ||
      !std::all_of(url.begin(), url.end(), is_plain)) {
    return fail(Code::invalid, fmt::format("{} is not the address of a blob service; write it like "
                                           "https://account.blob.core.windows.net or "
                                           "http://127.0.0.1:10000/devstoreaccount1",
                                           where));
  }
  return url;
}

// The account in an endpoint: the path of an emulator's, the first part of a host name.
std::string account_of(const std::string& endpoint) {
  const std::string host = host_of(endpoint);
  const size_t path = endpoint.find('/', endpoint.find("://") + 3);
  if (path != std::string::npos) return endpoint.substr(path + 1);
  return host.substr(0, host.find('.'));
}

std::string field_of(std::string_view sas, std::string_view name) {
  while (!sas.empty()) {
    const std::string_view one = sas.substr(0, sas.find('&'));
    sas.remove_prefix(std::min(one.size() + 1, sas.size()));
    const size_t equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name)
      return percent_decode(one.substr(equals + 1));
  }
  return {};
}

Result<std::map<std::string, std::string>> fields_of(const std::string& text) {
  std::map<std::string, std::string> fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string one = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (one.empty()) continue;
    const size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0) {
      return bad_value(kConnectionString, "has a part that is not Name=value");
    }
    fields[lower(trimmed(one.substr(0, equals)))] = trimmed(one.substr(equals + 1));
  }
  return fields;
}

}  // namespace

Result<ConnectionString> parse_connection_string(const std::string& text) {
  ASSIGN_OR_RETURN(auto fields, fields_of(text));
  if (lower(fields["usedevelopmentstorage"]) == "true") {
    fields.try_emplace("accountname", kEmulatorAccount);
    fields.try_emplace("accountkey", kEmulatorKey);
    fields.try_emplace("blobendpoint", kEmulatorEndpoint);
  }
  ConnectionString found{.account = fields["accountname"]};
  if (!fields["accountkey"].empty()) {
    ASSIGN_OR_RETURN(found.key, decode_key("the AccountKey of " + std::string(kConnectionString),
                                           fields["accountkey"]));
  }
  if (!fields["sharedaccesssignature"].empty()) {
    ASSIGN_OR_RETURN(found.sas,
                     check_sas("the SharedAccessSignature of " + std::string(kConnectionString),
                               fields["sharedaccesssignature"]));
  }
  const std::string where = "the endpoint in " + std::string(kConnectionString);
  if (!fields["blobendpoint"].empty()) {
    ASSIGN_OR_RETURN(found.blob_endpoint, check_endpoint(where, fields["blobendpoint"]));
    if (found.account.empty()) found.account = account_of(found.blob_endpoint);
  }
  if (found.account.empty()) return bad_value(kConnectionString, "names no account");
  const std::string protocol = lower(fields["defaultendpointsprotocol"]);
  const std::string suffix = fields["endpointsuffix"];
  ASSIGN_OR_RETURN(
      found.usual_endpoint,
      check_endpoint(where, fmt::format("{}://{}.blob.{}", protocol.empty() ? "https" : protocol,
                                        found.account, suffix.empty() ? kSuffix : suffix)));
  return found;
}

// The steps of find(), each of which may end it.
struct AzureCredentials::Search {
  const std::string& account;
  const CloudSurroundings& surroundings;
  AzureCredentials& found;
  std::string usual_endpoint = fmt::format("https://{}.blob.{}", account, kSuffix);

  std::string variable(const char* name) const {
    return surroundings.variable ? trimmed(surroundings.variable(name).value_or("")) : "";
  }

  void nothing(std::string_view where, std::string_view why) {
    if (!found.looked_.empty()) found.looked_ += ", ";
    found.looked_ += fmt::format("{} ({})", where, why);
  }

  // Whether AZURE_STORAGE_ACCOUNT lets the other variables speak for this account.
  std::string other_account() const {
    const std::string named = variable(kAccount);
    return named == account ? "" : named;
  }

  void use_key(Bytes key, std::string_view where) {
    found.kind_ = Kind::shared_key;
    found.key_ = {account, std::move(key)};
    found.shown_ = fmt::format("the key of account '{}', from {}", account, where);
  }

  void use_sas(std::string sas, std::string_view where) {
    found.kind_ = Kind::sas;
    found.sas_ = std::move(sas);
    const std::string end = found.sas_end();
    const std::string rights = field_of(found.sas_, "sp");
    found.shown_ = fmt::format("a SAS token from {}{}{}", where,
                               rights.empty() ? "" : fmt::format(", with the rights '{}'", rights),
                               end.empty() ? "" : fmt::format(", until {}", end));
  }

  // True: found.
  Result<bool> in_connection_string() {
    const std::string text = variable(kConnectionString);
    if (text.empty()) {
      nothing(kConnectionString, "not set");
      return false;
    }
    ASSIGN_OR_RETURN(ConnectionString parsed, parse_connection_string(text));
    if (parsed.account != account) {
      nothing(kConnectionString, fmt::format("is for account '{}'", parsed.account));
      return false;
    }
    found.endpoint_ = parsed.blob_endpoint;
    usual_endpoint = parsed.usual_endpoint;
    if (!parsed.key.empty()) {
      use_key(std::move(parsed.key), kConnectionString);
    } else if (!parsed.sas.empty()) {
      use_sas(std::move(parsed.sas), kConnectionString);
    } else {
      nothing(kConnectionString, "has neither AccountKey nor SharedAccessSignature");
      return false;
    }
    return true;
  }

  // The value of a variable that is set and for this account.
  std::string for_this_account(const char* name) {
    std::string value = variable(name);
    const std::string other = other_account();
    if (!value.empty() && other.empty()) return value;
    nothing(name,
            value.empty() ? "not set" : fmt::format("is for account '{}' of {}", other, kAccount));
    return {};
  }

  Status credentials(Clock& clock) {
    ASSIGN_OR_RETURN(const bool done, in_connection_string());
    if (done) return {};
    if (const std::string key = for_this_account(kKey); !key.empty()) {
      ASSIGN_OR_RETURN(Bytes decoded, decode_key(kKey, key));
      use_key(std::move(decoded), kKey);
      return {};
    }
    if (const std::string sas = for_this_account(kSas); !sas.empty()) {
      ASSIGN_OR_RETURN(std::string checked, check_sas(kSas, sas));
      use_sas(std::move(checked), kSas);
      return {};
    }
    found.identity_ = std::make_unique<ManagedIdentity>(find_token_source(surroundings), clock);
    found.shown_ = "a managed identity, from " + found.identity_->source().shown;
    return {};
  }

  Status endpoint() {
    if (!found.endpoint_.empty()) return {};
    const std::string named = variable(kEndpoint);
    if (named.empty() || !other_account().empty()) {
      found.endpoint_ = usual_endpoint;
      return {};
    }
    ASSIGN_OR_RETURN(found.endpoint_, check_endpoint(kEndpoint, named));
    // An emulator's address without the account, which has no place but the path.
    const bool has_path =
        found.endpoint_.find('/', found.endpoint_.find("://") + 3) != std::string::npos;
    if (!has_path && is_on_this_machine(found.endpoint_)) found.endpoint_ += "/" + account;
    return {};
  }
};

Result<std::unique_ptr<AzureCredentials>> AzureCredentials::find(
    const std::string& account, const CloudSurroundings& surroundings, Clock& clock) {
  std::unique_ptr<AzureCredentials> found(new AzureCredentials());
  Search search{account, surroundings, *found};
  RETURN_IF_ERROR(search.credentials(clock));
  RETURN_IF_ERROR(search.endpoint());
  return found;
}

std::string AzureCredentials::sas_end() const { return field_of(sas_, "se"); }

Status AzureCredentials::authorize(HttpRequest& request, bool refresh) {
  if (kind_ == Kind::shared_key) {
    sign_with_shared_key(key_, request);
    return {};
  }
  if (kind_ == Kind::sas) {
    request.url += (request.url.find('?') == std::string::npos ? '?' : '&') + sas_;
    return {};
  }
  if (!is_safe_for_secrets(endpoint_)) {
    return fail(Code::failed_precondition,
                fmt::format("a managed identity's token is not sent to {} in the clear; use an "
                            "https:// endpoint",
                            endpoint_));
  }
  const Result<std::string> token = identity_->token(refresh);
  if (!token) {
    return fail(token.error().code,
                fmt::format("no credentials for Azure: {}; looked before at {}. Set {} or {}, or "
                            "run where there is a managed identity",
                            token.error().message, looked_, kConnectionString, kKey));
  }
  request.headers.push_back({"Authorization", "Bearer " + *token});
  return {};
}

}  // namespace tern
