// The bytes that really go between ranks, as the kernel counts them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace tern {

struct SocketBytes {
  int64_t sent = 0;  // given to TCP, and sent again where that was needed
  int64_t received = 0;
};

// The connections of a process group. Gloo tells nobody which they are, but has one epoll instance
// for each group, and the kernel says which sockets an instance watches. So these are exactly the
// group's connections, which an interface's counters, shared by everybody on the machine, would not
// be; and looking costs a microsecond for each. Made by the thread that makes the group.
class PeerSockets {
 public:
  PeerSockets() : before_(epolls()) {}

  // Those that are watched by instances made since the constructor. None if there are not just
  // `count` of them: then something else made an instance at the same moment, and nothing is
  // measured.
  void find(size_t count);
  // Until now, of all of them. Nothing if there are none, or a kernel before 4.19. They must be
  // open: a group that is broken may have closed them.
  std::optional<SocketBytes> bytes() const;

 private:
  static std::set<int> epolls();

  std::set<int> before_;
  std::vector<int> sockets_;
};

}  // namespace tern
