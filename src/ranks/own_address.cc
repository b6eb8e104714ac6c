#include "ranks/own_address.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <memory>

#include "ranks/socket.h"

namespace tern {
namespace {

// Kept for documentation, so it is nobody's: it is behind the default route. Nothing is sent.
constexpr char kFarAway[] = "192.0.2.1";
constexpr char kLoopback[] = "127.0.0.1";

socklen_t length_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::string digits_of(const sockaddr& address) {
  char host[NI_MAXHOST];
  const int failed =
      getnameinfo(&address, length_of(address), host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return failed != 0 ? "" : host;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The first address, of IPv4 if it has one: all ranks must choose the same.
Result<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0) {
    return fail(Code::not_found, fmt::format("the name {} is not known here: {}; write an address "
                                             "in digits",
                                             host, gai_strerror(failed)));
  }
  const Addresses addresses(found, &freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) return digits_of(*each->ai_addr);
  }
  return digits_of(*found->ai_addr);
}

// The first address of an interface that is up and that `is_meant`.
std::string address_of_interface(const std::function<bool(const ifaddrs&)>& is_meant) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & IFF_UP) != 0 && is_meant(*each)) return digits_of(*each->ifa_addr);
    }
  }
  return "";
}

// The address that packets to `address` would leave by; empty if there is no way there.
std::string source_towards(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), "9", &hints, &found) != 0) return "";
  const Addresses owner(found, &freeaddrinfo);
  const Descriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage source{};
  socklen_t length = sizeof source;
  auto* const plain = reinterpret_cast<sockaddr*>(&source);
  if (!socket.is_open() || connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(socket.get(), plain, &length) != 0) {
    return "";
  }
  return digits_of(*plain);
}

std::string address_for_others() {
  const std::string source = source_towards(kFarAway);
  if (!source.empty()) return source;
  return address_of_interface(
      [](const ifaddrs& each) { return (each.ifa_flags & IFF_LOOPBACK) == 0; });
}

}  // namespace

Result<MeetingPlace> find_meeting_place(const std::string& host, const std::string& interface) {
  MeetingPlace place;
  ASSIGN_OR_RETURN(place.address, resolve(host));
  const bool means_loopback = host == "localhost" || is_loopback(host);
  if (is_loopback(place.address) && !means_loopback) {
    const std::string others = address_for_others();
    if (!others.empty()) place.address = others;
  }
  if (!interface.empty()) {
    const auto is_meant = [&interface](const ifaddrs& each) { return each.ifa_name == interface; };
    place.own = address_of_interface(is_meant);
    if (!place.own.empty()) return place;
    return fail(Code::not_found, fmt::format("there is no interface {} here that is up and has an "
                                             "address; `ip addr` lists them",
                                             interface));
  }
  place.own = source_towards(place.address);
  if (place.own.empty()) place.own = kLoopback;
  return place;
}

std::string interface_with(const std::string& address) {
  std::string name;
  address_of_interface([&](const ifaddrs& each) {
    if (digits_of(*each.ifa_addr) == address) name = each.ifa_name;
    return !name.empty();
  });
  return name;
}

}  // namespace tern
