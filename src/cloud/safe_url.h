// Where a secret may be sent.
#pragma once

#include <optional>
#include <string>

namespace tern {

struct UrlHost {
  std::string scheme;
  std::string name;  // without the port; an IPv6 address without its brackets
};

// Of "https://host:443/path"; nothing if there is no host, or a name or password before it.
std::optional<UrlHost> host_of_url(const std::string& url);

// "localhost", 127.0.0.0/8, ::1.
bool is_loopback(const std::string& host);

// Whether nobody on the way can read what is sent there: https, or http to this machine.
bool is_safe_for_secrets(const std::string& url);

}  // namespace tern
