// Where a cloud's metadata service is: at its usual address, unless a variable moves it.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tern {

// getenv, passed in; nothing for a variable that is not set.
using VariableReader = std::function<std::optional<std::string>(const std::string&)>;

// "http://169.254.169.254", without a slash at the end. Nothing is asked here.
//
// AWS_EC2_METADATA_SERVICE_ENDPOINT, or by AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE=IPv6 the address
// of that kind; empty if AWS_EC2_METADATA_DISABLED is "true".
std::string aws_metadata_endpoint(const VariableReader& variable);
// GCE_METADATA_HOST, a host with or without a port.
std::string gcp_metadata_endpoint(const VariableReader& variable);
// TERN_AZURE_METADATA_ENDPOINT; Azure itself has no variable for it.
std::string azure_metadata_endpoint(const VariableReader& variable);

}  // namespace tern
