#include "core/metadata_endpoint.h"

#include <algorithm>

namespace tern {
namespace {

constexpr char kLinkLocal[] = "http://169.254.169.254";

// Set to nothing is as good as not set.
std::string value_of(const VariableReader& variable, const char* name) {
  return variable ? variable(name).value_or("") : "";
}

std::string without_slashes(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

}  // namespace

std::string aws_metadata_endpoint(const VariableReader& variable) {
  std::string disabled = value_of(variable, "AWS_EC2_METADATA_DISABLED");
  std::transform(disabled.begin(), disabled.end(), disabled.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (disabled == "true") return "";
  const std::string given =
      without_slashes(value_of(variable, "AWS_EC2_METADATA_SERVICE_ENDPOINT"));
  if (!given.empty()) return given;
  const bool six = value_of(variable, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") == "IPv6";
  return six ? "http://[fd00:ec2::254]" : kLinkLocal;
}

std::string gcp_metadata_endpoint(const VariableReader& variable) {
  const std::string host = without_slashes(value_of(variable, "GCE_METADATA_HOST"));
  return "http://" + (host.empty() ? "metadata.google.internal" : host);
}

std::string azure_metadata_endpoint(const VariableReader& variable) {
  const std::string given = without_slashes(value_of(variable, "TERN_AZURE_METADATA_ENDPOINT"));
  return given.empty() ? kLinkLocal : given;
}

}  // namespace tern
