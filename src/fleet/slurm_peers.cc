#include "fleet/slurm_peers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "core/system_files.h"
#include "fleet/slurm_call.h"
#include "fleet/slurm_text.h"
#include "storage/file_door.h"

namespace tern {
namespace {

std::string text_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

Result<std::string> resolve(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &wanted, &found); error != 0) {
    return fail(Code::not_found, fmt::format("node {} has no address ({}); set its NodeAddr in "
                                             "slurm.conf, or its name in the resolver",
                                             name, gai_strerror(error)));
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  freeaddrinfo(found);
  return text_of(address.sin_addr);
}

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

// Ours on the way to another machine. A datagram socket that is connected sends nothing.
std::string address_towards(const std::string& other) {
  const FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  socklen_t size = sizeof address;
  if (inet_pton(AF_INET, other.c_str(), &address.sin_addr) != 1 ||
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "";
  }
  return text_of(address.sin_addr);
}

}  // namespace

Result<std::vector<std::string>> find_slurm_addresses(const std::string& nodes,
                                                      const std::string& own, Clock& clock) {
  ASSIGN_OR_RETURN(const Bytes said, ask_slurm({"scontrol", "show", "hostnames", nodes}, clock));
  const std::vector<std::string> names = parse_hostnames(said);
  ASSIGN_OR_RETURN(const Bytes described,
                   ask_slurm({"scontrol", "show", "node", "-o", nodes}, clock));
  const std::map<std::string, std::string> known = parse_node_addresses(described);
  std::vector<std::string> addresses;
  for (const std::string& name : names) {
    const auto found = known.find(name);
    ASSIGN_OR_RETURN(const std::string address,
                     resolve(found == known.end() || found->second.empty() ? name : found->second));
    addresses.push_back(address);
  }
  const auto other = std::ranges::find_if_not(addresses, is_loopback);
  for (size_t i = 0; i < names.size() && other != addresses.end(); ++i) {
    if (names[i] != own || !is_loopback(addresses[i])) continue;
    const std::string seen = address_towards(*other);
    if (!seen.empty()) addresses[i] = seen;
  }
  return addresses;
}

bool is_free_to_listen(const std::string& address_and_port) {
  const size_t colon = address_and_port.rfind(':');
  if (colon == std::string::npos) return false;
  const auto port = parse_whole_number(address_and_port.substr(colon + 1));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (!port || *port < 1 || *port > 65535 ||
      inet_pton(AF_INET, address_and_port.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    return false;
  }
  address.sin_port = htons(static_cast<uint16_t>(*port));
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         listen(fd.get(), 1) == 0;
}

}  // namespace tern
