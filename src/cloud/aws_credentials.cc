#include "cloud/aws_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cloud/aws_metadata.h"
#include "core/metadata_endpoint.h"

namespace tern {
namespace {

constexpr int64_t kRefreshBeforeMs = 5 * 60'000;
constexpr Milliseconds kRefreshEvery{30'000};
constexpr Milliseconds kPauseWithoutKeys{2'000};
constexpr std::string_view kAdvice =
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run `aws configure`, or give this machine a "
    "role";

std::string value_of(const AwsSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

bool has_keys(const AwsSettings& settings) {
  return !value_of(settings, "aws_access_key_id").empty() ||
         !value_of(settings, "aws_secret_access_key").empty();
}

// Copied from a web page or a file, keys tend to carry a blank or a line's end with them.
Status check_keys(const AwsKeys& keys, const std::string& origin) {
  if (keys.access_key_id.empty() || keys.secret_access_key.empty()) {
    return fail(Code::failed_precondition,
                fmt::format("{} has only half of a key: it needs an access key id and a secret "
                            "access key; set both",
                            origin));
  }
  for (const std::string* text : {&keys.access_key_id, &keys.session_token}) {
    const bool plain =
        std::all_of(text->begin(), text->end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (plain) continue;
    return fail(Code::failed_precondition,
                fmt::format("{} has a blank or another odd byte in its key or token; copy it again",
                            origin));
  }
  return {};
}

// What a profile asks for that is not done here, in AWS's words; empty if nothing.
std::string unsupported_before_files(const CloudSurroundings& surroundings,
                                     const AwsProfile& profile) {
  for (const std::string name :
       {"role_arn", "web_identity_token_file", "sso_session", "sso_start_url", "sso_account_id"}) {
    if (!profile.setting(name).empty()) {
      return fmt::format("profile '{}' has {}", profile.name, name);
    }
  }
  if (aws_variable(surroundings, "AWS_WEB_IDENTITY_TOKEN_FILE")) {
    return "AWS_WEB_IDENTITY_TOKEN_FILE is set";
  }
  return {};
}

Error unsupported(const std::string& what, const std::string& profile) {
  return fail(Code::failed_precondition,
              fmt::format("{}: keys of that kind are not fetched here (supported are plain keys, "
                          "container roles and instance roles); let AWS's tool fetch them: "
                          "eval \"$(aws configure export-credentials --profile {} --format env)\"",
                          what, profile));
}

// 169.254.170.2 is where ECS has its service on every machine.
std::optional<std::string> container_url(const CloudSurroundings& surroundings) {
  if (const auto path = aws_variable(surroundings, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    return "http://169.254.170.2" + std::string(path->starts_with('/') ? "" : "/") + *path;
  }
  return aws_variable(surroundings, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

std::string where_looked(const AwsProfile& profile) {
  const auto state = [](const std::filesystem::path& file) {
    std::error_code ignored;
    return fmt::format("{} ({})", file.string(),
                       std::filesystem::exists(file, ignored) ? "no keys there" : "no such file");
  };
  return fmt::format(
      "AWS_ACCESS_KEY_ID (not set), profile '{}' in {} and in {}, "
      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI (not set)",
      profile.name, state(profile.credentials_file), state(profile.config_file));
}

Error nothing_found(const std::string& looked, const std::string& instance) {
  return fail(Code::failed_precondition,
              fmt::format("no AWS credentials were found in {}, the instance's role ({}); {}",
                          looked, instance, kAdvice));
}

}  // namespace

AwsCredentials::AwsCredentials(CloudSurroundings surroundings, Clock& clock, Source source,
                               std::string looked)
    : surroundings_(std::move(surroundings)),
      clock_(clock),
      source_(source),
      looked_(std::move(looked)) {}

Result<AwsCredentials::Source> AwsCredentials::find_source(const CloudSurroundings& surroundings,
                                                           const AwsProfile& profile) {
  if (aws_variable(surroundings, "AWS_ACCESS_KEY_ID") ||
      aws_variable(surroundings, "AWS_SECRET_ACCESS_KEY")) {
    return Source::environment;
  }
  const std::string early = unsupported_before_files(surroundings, profile);
  if (!early.empty()) return unsupported(early, profile.name);
  if (has_keys(profile.credentials)) return Source::credentials_file;
  if (!profile.setting("credential_process").empty()) {
    return unsupported(fmt::format("profile '{}' has credential_process", profile.name),
                       profile.name);
  }
  if (has_keys(profile.config)) return Source::config_file;
  if (const std::optional<std::string> url = container_url(surroundings)) {
    RETURN_IF_ERROR(check_container_url(*url));
    return Source::container;
  }
  if (!aws_metadata_endpoint(surroundings.variable).empty()) return Source::instance;
  return nothing_found(where_looked(profile), "not asked: AWS_EC2_METADATA_DISABLED is set");
}

Result<std::unique_ptr<AwsCredentials>> AwsCredentials::find(const CloudSurroundings& surroundings,
                                                             Clock& clock) {
  ASSIGN_OR_RETURN(const AwsProfile profile, read_aws_profile(surroundings));
  ASSIGN_OR_RETURN(const Source source, find_source(surroundings, profile));
  std::unique_ptr<AwsCredentials> credentials(
      new AwsCredentials(surroundings, clock, source, where_looked(profile)));
  // What needs no service is read now, so that half a key is told before anything begins.
  if (source != Source::container && source != Source::instance) {
    MutexLock lock(credentials->mutex_);
    RETURN_IF_ERROR(credentials->make_current(/*refresh=*/false));
  }
  return credentials;
}

Result<AwsKeys> AwsCredentials::keys(bool refresh) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(make_current(refresh));
  return found_->keys;
}

Result<std::string> AwsCredentials::describe() {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(make_current(/*refresh=*/false));
  const std::string& id = found_->keys.access_key_id;
  // A short id is some test server's; its end would be all of it.
  const std::string shown = id.size() >= 12 ? " ending in " + id.substr(id.size() - 4) : "";
  return fmt::format("access key{} of {}", shown, found_->origin);
}

// Old keys that still hold are used when new ones cannot be had.
Status AwsCredentials::make_current(bool refresh) {
  const int64_t now = clock_.unix_ms();
  const bool due =
      found_ && found_->expires_unix_ms && *found_->expires_unix_ms - now < kRefreshBeforeMs;
  const bool asked = refresh && clock_.now() - loaded_at_ >= kRefreshEvery;
  if (found_ && !due && !asked) return {};
  const bool still_hold = due && !refresh && *found_->expires_unix_ms > now;
  const Nanoseconds pause = still_hold ? kRefreshEvery : kPauseWithoutKeys;
  const bool asks = !problem_ || clock_.now() - failed_at_ >= pause;
  if (!asks) return still_hold ? Status() : *problem_;
  Result<Found> loaded = load();
  problem_.reset();
  if (loaded) {
    found_ = std::move(loaded).value();
    loaded_at_ = clock_.now();
    return {};
  }
  failed_at_ = clock_.now();
  if (loaded.error().code == Code::unavailable) problem_ = loaded.error();
  if (still_hold) return {};
  return loaded.error();
}

Result<AwsCredentials::Found> AwsCredentials::load() {
  if (source_ == Source::container) return load_from_container();
  if (source_ == Source::instance) return load_from_instance();
  if (source_ != Source::environment) return load_from_profile();
  const auto variable = [&](const std::string& name) {
    return aws_variable(surroundings_, name).value_or("");
  };
  Found found;
  found.keys = {variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                variable("AWS_SESSION_TOKEN")};
  found.origin = "the environment (AWS_ACCESS_KEY_ID)";
  RETURN_IF_ERROR(check_keys(found.keys, found.origin));
  return found;
}

Result<AwsCredentials::Found> AwsCredentials::load_from_profile() {
  ASSIGN_OR_RETURN(const AwsProfile profile, read_aws_profile(surroundings_));
  const bool by_credentials = source_ == Source::credentials_file;
  const AwsSettings& settings = by_credentials ? profile.credentials : profile.config;
  Found found;
  found.keys = {value_of(settings, "aws_access_key_id"),
                value_of(settings, "aws_secret_access_key"),
                value_of(settings, "aws_session_token")};
  found.origin =
      fmt::format("profile '{}' in {}", profile.name,
                  (by_credentials ? profile.credentials_file : profile.config_file).string());
  RETURN_IF_ERROR(check_keys(found.keys, found.origin));
  return found;
}

Result<AwsCredentials::Found> AwsCredentials::load_from_container() {
  ContainerService service;
  service.url = container_url(surroundings_).value_or("");
  // The file is read each time: it is what EKS renews.
  if (const auto file = aws_variable(surroundings_, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    ASSIGN_OR_RETURN(service.authorization, read_aws_file(*file));
    while (service.authorization.ends_with('\n')) service.authorization.pop_back();
  } else {
    service.authorization =
        aws_variable(surroundings_, "AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  }
  ASSIGN_OR_RETURN(AwsRoleKeys role, fetch_container_keys(service, clock_));
  return Found{std::move(role.keys), role.expires_unix_ms, "the container's role"};
}

Result<AwsCredentials::Found> AwsCredentials::load_from_instance() {
  const std::string endpoint = aws_metadata_endpoint(surroundings_.variable);
  Result<AwsRoleKeys> role = fetch_instance_keys(endpoint, clock_);
  if (role) {
    return Found{std::move(role->keys), role->expires_unix_ms,
                 fmt::format("the instance's role {}", role->role)};
  }
  const Code code = role.error().code;
  const bool was_there = found_.has_value() && code == Code::not_found;
  if (code == Code::unavailable || was_there) return fail(Code::unavailable, role.error().message);
  // Nobody there is the rule outside AWS, and somebody else happens: what helps is to know where
  // else there was nothing.
  return nothing_found(looked_, role.error().message);
}

}  // namespace tern
