#include "ranks/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "core/system_files.h"

namespace tern {
namespace {

using AddressInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// By the digits alone: a name server is nobody's business here.
Result<AddressInfo> parse(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
    return fail(Code::invalid, fmt::format("'{}' is no address; write digits, as 127.0.0.1", host));
  }
  return AddressInfo(found, &freeaddrinfo);
}

bool stands_for_all(const addrinfo& info) {
  if (info.ai_family == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    return address->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  const auto* address = reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
  return IN6_IS_ADDR_UNSPECIFIED(&address->sin6_addr);
}

Result<Descriptor> make_socket(const addrinfo& info) {
  Descriptor made(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.is_open()) return made;
  return fail(Code::exhausted,
              fmt::format("cannot make a socket: {}; raise the limit on open files "
                          "(ulimit -n) and try again",
                          std::strerror(errno)));
}

Result<std::string> name_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(socket, plain, &length) != 0 ||
      getnameinfo(plain, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return fail(Code::internal, "a socket that does not know its own address");
  }
  return fmt::format("{}:{}", host, port);
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Result<HostAndPort> parse_address(const std::string& address_and_port) {
  const size_t colon = address_and_port.rfind(':');
  const std::string port(colon == std::string::npos ? "" : address_and_port.substr(colon + 1));
  const std::optional<int64_t> number = parse_whole_number(port);
  if (!number || *number < 1 || *number > 65'535) {
    return fail(Code::invalid, fmt::format("'{}' is no address and port; write digits, as "
                                           "10.0.0.4:20317",
                                           address_and_port));
  }
  const Result<AddressInfo> is_digits = parse(address_and_port.substr(0, colon), port);
  if (!is_digits) return is_digits.error();
  return HostAndPort{address_and_port.substr(0, colon), *number};
}

Result<Listening> listen_on(const std::string& address, int64_t port) {
  ASSIGN_OR_RETURN(const AddressInfo info, parse(address, std::to_string(port)));
  if (stands_for_all(*info)) {
    return fail(Code::invalid, fmt::format("{} would listen on every network; name one address of "
                                           "this machine, as 127.0.0.1",
                                           address));
  }
  ASSIGN_OR_RETURN(Descriptor socket, make_socket(*info));
  // One that is started again finds its port in the hands of connections that are past.
  const int on = 1;
  if (port != 0) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.get(), info->ai_addr, info->ai_addrlen) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return fail(Code::unavailable,
                port == 0
                    ? fmt::format("cannot listen on {}: {}; ranks.address must be one of this "
                                  "machine's",
                                  address, std::strerror(errno))
                    : fmt::format("cannot listen on {}:{}: {}; it must be an address of this "
                                  "machine's, at a port that nothing else has",
                                  address, port, std::strerror(errno)));
  }
  ASSIGN_OR_RETURN(std::string name, name_of(socket.get()));
  return Listening{std::move(socket), std::move(name)};
}

Result<Descriptor> begin_connect(const std::string& address_and_port) {
  ASSIGN_OR_RETURN(const HostAndPort place, parse_address(address_and_port));
  ASSIGN_OR_RETURN(const AddressInfo info, parse(place.host, std::to_string(place.port)));
  ASSIGN_OR_RETURN(Descriptor socket, make_socket(*info));
  if (connect(socket.get(), info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return fail(Code::unavailable, std::strerror(errno));
  }
  send_without_delay(socket.get());
  return socket;
}

Result<Descriptor> connect_to(const std::string& address_and_port, Milliseconds limit) {
  ASSIGN_OR_RETURN(const HostAndPort place, parse_address(address_and_port));
  ASSIGN_OR_RETURN(const AddressInfo info, parse(place.host, std::to_string(place.port)));
  ASSIGN_OR_RETURN(Descriptor socket, make_socket(*info));
  int error = 0;
  if (connect(socket.get(), info->ai_addr, info->ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd ready{socket.get(), POLLOUT, 0};
    socklen_t length = sizeof error;
    error = poll(&ready, 1, static_cast<int>(limit.count())) == 1 ? 0 : ETIMEDOUT;
    if (error == 0) getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) {
    return fail(Code::unavailable, fmt::format("cannot reach the supervisor at {}: {}; is it still "
                                               "running?",
                                               address_and_port, std::strerror(error)));
  }
  send_without_delay(socket.get());
  return socket;
}

void send_without_delay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Result<Descriptor> make_wake() {
  Descriptor made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (made.is_open()) return made;
  return fail(Code::exhausted, fmt::format("{}; raise the limit on open files (ulimit -n) and try "
                                           "again",
                                           std::strerror(errno)));
}

void wake(const Descriptor& descriptor) { eventfd_write(descriptor.get(), 1); }

void clear_wake(const Descriptor& descriptor) {
  eventfd_t ignored = 0;
  eventfd_read(descriptor.get(), &ignored);
}

}  // namespace tern
