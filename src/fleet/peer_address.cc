#include "fleet/peer_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>

#include "core/system_files.h"
#include "core/token.h"
#include "storage/file_door.h"

namespace tern {
namespace {

constexpr unsigned kPortFirst = 20'000;
constexpr unsigned kPorts = 10'000;
constexpr int kTriesMax = 200;

using AddressInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressInfo> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found); failed != 0) {
    return fail(Code::failed_precondition,
                fmt::format("its interface {} cannot be resolved there ({}); write the digits of "
                            "one of its addresses in the hosts file: interface = \"10.0.0.4\"",
                            host, gai_strerror(failed)));
  }
  return AddressInfo(found, &freeaddrinfo);
}

bool stands_for_all(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == htonl(INADDR_ANY);
  }
  if (address.sa_family != AF_INET6) return true;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

void set_port(sockaddr& address, unsigned port) {
  const in_port_t number = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = number;
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = number;
  }
}

// 0, or why nothing can listen there.
int try_to_bind(const addrinfo& info) {
  const FileDescriptor tried(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!tried.is_open()) return errno;
  return bind(tried.get(), info.ai_addr, info.ai_addrlen) == 0 ? 0 : errno;
}

Result<std::string> in_digits(const addrinfo& info) {
  char host[NI_MAXHOST];
  if (getnameinfo(info.ai_addr, info.ai_addrlen, host, sizeof host, nullptr, 0, NI_NUMERICHOST) ==
      0) {
    return std::string(host);
  }
  return fail(Code::internal, "an address that cannot be written down");
}

}  // namespace

Result<std::string> choose_peer_address(const std::string& host) {
  ASSIGN_OR_RETURN(const AddressInfo found, resolve(host));
  int problem = 0;
  for (addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    if (stands_for_all(*info->ai_addr)) {
      return fail(Code::invalid, fmt::format("its interface {} would listen on every network; name "
                                             "one address of the machine in the hosts file",
                                             host));
    }
    for (int i = 0; i < kTriesMax; ++i) {
      ASSIGN_OR_RETURN(const Bytes random, random_bytes(4));
      uint32_t number = 0;
      std::memcpy(&number, random.data(), sizeof number);
      const unsigned port = kPortFirst + number % kPorts;
      set_port(*info->ai_addr, port);
      problem = try_to_bind(*info);
      if (problem == 0) {
        ASSIGN_OR_RETURN(const std::string digits, in_digits(*info));
        return fmt::format("{}:{}", digits, port);
      }
      if (problem != EADDRINUSE && problem != EACCES) break;
    }
  }
  return fail(Code::failed_precondition,
              fmt::format("its interface {} cannot be listened on there ({}); name one of the "
                          "machine's own addresses in the hosts file: interface = \"10.0.0.4\"",
                          host, std::strerror(problem)));
}

Result<std::string> server_of_ssh_connection(const std::string& variable) {
  std::istringstream words(variable);
  std::string client;
  std::string client_port;
  std::string server;
  if (words >> client >> client_port >> server) return server;
  return fail(Code::failed_precondition,
              fmt::format("its sshd does not say at which address it was reached ('{}'); name one "
                          "in the hosts file: interface = \"10.0.0.4\"",
                          printable_line(variable)));
}

}  // namespace tern
