// Sockets as this folder uses them: numeric addresses, never waiting, closed on exec.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// A descriptor with an owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // To another owner.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Listening {
  Descriptor socket;
  std::string address;  // "127.0.0.1:41234"
};

// Listens on this one address; at port 0 the kernel chooses. `invalid` if it is no address, or one
// that stands for all; `unavailable` if it is none of this machine's, or the port is taken.
Result<Listening> listen_on(const std::string& address, int64_t port = 0);

// Connects within `limit`. `unavailable` if nobody listens there.
Result<Descriptor> connect_to(const std::string& address_and_port, Milliseconds limit);

// Connects and does not wait: what is written before it has connected is not taken (EAGAIN), and a
// failure is told by the first read.
Result<Descriptor> begin_connect(const std::string& address_and_port);

struct HostAndPort {
  std::string host;
  int64_t port = 0;
};
// "127.0.0.1:41234"; `invalid` if it is no such thing, in digits.
Result<HostAndPort> parse_address(const std::string& address_and_port);

// Small messages go at once.
void send_without_delay(int socket);

// An eventfd, to wake a poll() from another thread.
Result<Descriptor> make_wake();
void wake(const Descriptor& descriptor);
void clear_wake(const Descriptor& descriptor);

}  // namespace tern
