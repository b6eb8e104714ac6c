#include "cloud/s3_place.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/http_client.h"

namespace tern {
namespace {

// The first of the variables that is set, else the profile's setting.
std::string first_of(const CloudSurroundings& surroundings, const AwsProfile& profile,
                     std::initializer_list<std::string> variables, const std::string& setting) {
  for (const std::string& name : variables) {
    if (std::optional<std::string> value = aws_variable(surroundings, name)) return *value;
  }
  return profile.setting(setting);
}

// Without a slash at its end. The address is not repeated: it may hold a password.
Result<std::string> checked_endpoint(std::string endpoint) {
  const auto bad = [](std::string_view why) {
    return fail(Code::invalid, fmt::format("the S3 endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL "
                                           "or the profile's endpoint_url) {}; give one like "
                                           "https://storage.example.com:9000",
                                           why));
  };
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const size_t scheme = endpoint.find("://");
  const std::string before = endpoint.substr(0, std::min(scheme, endpoint.size()));
  if (scheme == std::string::npos || (before != "http" && before != "https")) {
    return bad("does not begin with http:// or https://");
  }
  const std::string rest = endpoint.substr(scheme + 3);
  if (rest.empty() || rest[0] == '/') return bad("has no host");
  if (rest.find('@') != std::string::npos) return bad("has a user's name, which is not used");
  if (rest.find_first_of("?#") != std::string::npos) return bad("has a query");
  const bool plain =
      std::all_of(rest.begin(), rest.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!plain) return bad("has a blank or another odd byte in it");
  return endpoint;
}

std::string aws_host(const std::string& region) {
  const bool china = region.starts_with("cn-");
  return fmt::format("s3.{}.amazonaws.com{}", region, china ? ".cn" : "");
}

}  // namespace

bool is_region(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  return plain && !text.empty() && text.size() <= 63;
}

std::string S3Place::url(const std::string& in_region, const std::string& name,
                         const S3Query& query) const {
  const std::string base = endpoint.empty() ? "https://" + aws_host(in_region) : endpoint;
  std::string url;
  if (virtual_host) {
    const size_t host = base.find("://") + 3;
    url = base.substr(0, host) + bucket + '.' + base.substr(host) + '/';
  } else {
    url = base + '/' + percent_encode(bucket) + (name.empty() ? "" : "/");
  }
  url += percent_encode(name, /*keep_slashes=*/true);
  char before = '?';
  for (const auto& [key, value] : query) {
    url += before + percent_encode(key);
    if (!value.empty()) url += '=' + percent_encode(value);
    before = '&';
  }
  return url;
}

std::string S3Place::shown_endpoint() const {
  return endpoint.empty() ? fmt::format("AWS ({})", region) : endpoint;
}

Result<S3Place> find_s3_place(const std::string& bucket, const CloudSurroundings& surroundings,
                              const AwsProfile& profile) {
  S3Place place;
  place.bucket = bucket;
  const std::string region =
      first_of(surroundings, profile, {"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  if (!region.empty()) place.region = region;
  if (!is_region(place.region)) {
    return fail(Code::invalid,
                "the AWS region (AWS_REGION, AWS_DEFAULT_REGION or the profile's "
                "region) is none; give one like eu-central-1");
  }
  const std::string endpoint =
      first_of(surroundings, profile, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  if (!endpoint.empty()) {
    ASSIGN_OR_RETURN(place.endpoint, checked_endpoint(endpoint));
  }
  const bool aws = endpoint.empty();
  const std::string style =
      first_of(surroundings, profile, {"AWS_S3_ADDRESSING_STYLE"}, "s3.addressing_style");
  if (!style.empty() && style != "auto" && style != "path" && style != "virtual") {
    return fail(Code::invalid,
                "AWS_S3_ADDRESSING_STYLE (or the profile's s3.addressing_style) "
                "must be path, virtual or auto");
  }
  place.virtual_host = aws && bucket.find('.') == std::string::npos;
  if (style == "path" || style == "virtual") place.virtual_host = style == "virtual";
  const std::string checksums = first_of(
      surroundings, profile, {"AWS_REQUEST_CHECKSUM_CALCULATION"}, "request_checksum_calculation");
  place.crc32c = aws;
  if (checksums == "when_supported") place.crc32c = true;
  if (checksums == "when_required") place.crc32c = false;
  return place;
}

}  // namespace tern
