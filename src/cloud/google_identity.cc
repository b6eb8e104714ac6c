#include "cloud/google_identity.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cloud/gcs_json.h"
#include "cloud/safe_url.h"
#include "core/metadata_endpoint.h"
#include "core/system_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kTokenUrl = "https://oauth2.googleapis.com/token";
constexpr const char* kFileVariable = "GOOGLE_APPLICATION_CREDENTIALS";

// Set to nothing is as good as not set.
std::string variable_of(const CloudSurroundings& surroundings, const std::string& name) {
  return surroundings.variable ? surroundings.variable(name).value_or("") : "";
}

Error no_credentials_file(const std::string& path, const std::string& why) {
  return fail(Code::corrupt, fmt::format("{} is no file of Google credentials: {}; download the "
                                         "service account's key again, or run 'gcloud auth "
                                         "application-default login'",
                                         path, why));
}

Status require(const std::string& path, const Json& json,
               std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (text_member(json, name).empty()) {
      return no_credentials_file(path, fmt::format("it has no '{}'", name));
    }
  }
  return {};
}

Result<GoogleIdentity> read_identity(const fs::path& file, const std::string& how) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    return fail(Code::failed_precondition,
                fmt::format("{} names {}, which is not there; set it to the JSON file of a service "
                            "account's key, or unset it",
                            how, file.string()));
  }
  const std::string text = read_system_file(file);
  if (text.empty()) {
    return fail(Code::failed_precondition,
                fmt::format("{} is empty or cannot be read; check its permissions", file.string()));
  }
  ASSIGN_OR_RETURN(GoogleIdentity identity, parse_google_identity(text, file.string()));
  identity.source = fmt::format("{}, from {} ({})", identity.source, how, file.string());
  return identity;
}

}  // namespace

Result<GoogleIdentity> parse_google_identity(BytesView text, const std::string& path) {
  const std::optional<Json> json = parse_small_json(text);
  if (!json) return no_credentials_file(path, "it is no JSON object");
  const std::string type = text_member(*json, "type");
  GoogleIdentity identity;
  identity.token_url = text_member(*json, "token_uri");
  if (identity.token_url.empty()) identity.token_url = kTokenUrl;
  if (type == "service_account") {
    RETURN_IF_ERROR(require(path, *json, {"client_email", "private_key"}));
    identity.kind = GoogleIdentity::Kind::service_account;
    identity.email = text_member(*json, "client_email");
    identity.private_key = text_member(*json, "private_key");
    identity.private_key_id = text_member(*json, "private_key_id");
    identity.project = text_member(*json, "project_id");
    identity.source = "service account " + printable_line(identity.email);
  } else if (type == "authorized_user") {
    RETURN_IF_ERROR(require(path, *json, {"client_id", "client_secret", "refresh_token"}));
    identity.kind = GoogleIdentity::Kind::authorized_user;
    identity.client_id = text_member(*json, "client_id");
    identity.client_secret = text_member(*json, "client_secret");
    identity.refresh_token = text_member(*json, "refresh_token");
    identity.project = text_member(*json, "quota_project_id");
    identity.source = "a person's login";
  } else {
    return fail(Code::invalid,
                fmt::format("{} has credentials of the type '{}', which is not supported; use the "
                            "key of a service account, or 'gcloud auth application-default login'",
                            path, printable_line(type).substr(0, 60)));
  }
  // Keys and refresh tokens are sent there.
  if (!is_safe_for_secrets(identity.token_url)) {
    return no_credentials_file(path, "its 'token_uri' is no https address");
  }
  return identity;
}

Result<GoogleIdentity> find_google_identity(const CloudSurroundings& surroundings) {
  if (const std::string named = variable_of(surroundings, kFileVariable); !named.empty()) {
    return read_identity(named, kFileVariable);
  }
  GoogleIdentity identity;
  if (!variable_of(surroundings, "STORAGE_EMULATOR_HOST").empty()) {
    identity.source = "none (STORAGE_EMULATOR_HOST is set, GOOGLE_APPLICATION_CREDENTIALS is not)";
    return identity;
  }
  const std::string config = variable_of(surroundings, "CLOUDSDK_CONFIG");
  const fs::path folder =
      config.empty() ? surroundings.home / ".config" / "gcloud" : fs::path(config);
  const fs::path file = folder / "application_default_credentials.json";
  std::error_code error;
  if (fs::exists(file, error)) return read_identity(file, "gcloud's login");

  const std::string endpoint = gcp_metadata_endpoint(surroundings.variable);
  identity.kind = GoogleIdentity::Kind::metadata;
  identity.metadata_url = endpoint + "/computeMetadata/v1/instance/service-accounts/default";
  identity.token_url = identity.metadata_url + "/token";
  identity.source =
      fmt::format("the machine's service account, from the metadata server {}",
                  printable_line(endpoint.substr(std::string_view("http://").size())));
  identity.looked = fmt::format("{} is not set, {} is not there", kFileVariable, file.string());
  return identity;
}

}  // namespace tern
