// Keys that AWS itself gives to a machine or a container in the name of its role.
#pragma once

#include <cstdint>
#include <string>

#include "cloud/open_store.h"
#include "cloud/sigv4.h"
#include "core/clock.h"
#include "core/result.h"

namespace tern {

struct AwsRoleKeys {
  AwsKeys keys;
  int64_t expires_unix_ms = 0;
  std::string role;  // its name, where the service says it
};

// The service of a container (ECS, EKS Pod Identity, Greengrass).
struct ContainerService {
  std::string url;            // may be a secret: never shown
  std::string authorization;  // the header's value, a secret; empty: none
};

// Whether keys may be fetched from there: https, or a host of this machine or its link. A token
// sent in the clear anywhere else would be read by others. `invalid`, with the reason.
Status check_container_url(const std::string& url);

// Each sends a few small requests on a connection of its own, past all proxies, and blocks for a
// few seconds at most: 1 to connect, 2 without a byte. `unavailable`: no answer, 5xx or 429;
// `failed_precondition`: it answers that there is no role; `permission_denied`; `corrupt`.
Result<AwsRoleKeys> fetch_container_keys(const ContainerService& service, Clock& clock);
// By IMDSv2: with a token, so that no request that a program was tricked into gets keys.
// `endpoint` is "http://169.254.169.254" on an instance. `not_found`: nothing answers at all, as
// everywhere outside AWS.
Result<AwsRoleKeys> fetch_instance_keys(const std::string& endpoint, Clock& clock);

// {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}, as both services answer.
Result<AwsRoleKeys> parse_role_keys(BytesView json);

}  // namespace tern
