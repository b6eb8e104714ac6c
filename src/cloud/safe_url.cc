#include "cloud/safe_url.h"

#include <arpa/inet.h>

#include <algorithm>

namespace tern {

std::optional<UrlHost> host_of_url(const std::string& url) {
  const size_t colon = url.find("://");
  if (colon == std::string::npos) return std::nullopt;
  std::string host = url.substr(colon + 3);
  host.resize(std::min(host.find_first_of("/?#"), host.size()));
  if (host.empty() || host.find('@') != std::string::npos) return std::nullopt;
  if (host[0] == '[') {
    const size_t end = host.find(']');
    if (end == std::string::npos) return std::nullopt;
    return UrlHost{url.substr(0, colon), host.substr(1, end - 1)};
  }
  return UrlHost{url.substr(0, colon), host.substr(0, host.find(':'))};
}

// Numbers as numbers: 127.0.0.1.example is somebody's name.
bool is_loopback(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (host == "localhost") return true;
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_safe_for_secrets(const std::string& url) {
  const std::optional<UrlHost> host = host_of_url(url);
  if (!host) return false;
  return host->scheme == "https" || (host->scheme == "http" && is_loopback(host->name));
}

}  // namespace tern
