#include "train/peer_sockets.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace tern {
namespace {

namespace fs = std::filesystem;

std::optional<tcp_info> info_of(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_sent) + sizeof(info.tcpi_bytes_sent)) {
    return std::nullopt;
  }
  return info;
}

bool is_connected(int descriptor) {
  constexpr uint8_t kEstablished = 1;  // TCP_ESTABLISHED of <netinet/tcp.h>, which clashes
  const std::optional<tcp_info> info = info_of(descriptor);
  return info && info->tcpi_state == kEstablished;
}

// "tfd:        8 events:       19 data: ..."
std::vector<int> watched_by(int epoll) {
  std::vector<int> watched;
  std::ifstream lines("/proc/self/fdinfo/" + std::to_string(epoll));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("tfd:")) continue;
    const size_t begin = line.find_first_not_of(' ', 4);
    int descriptor = -1;
    if (begin == std::string::npos) continue;
    std::from_chars(line.data() + begin, line.data() + line.size(), descriptor);
    if (descriptor >= 0) watched.push_back(descriptor);
  }
  return watched;
}

}  // namespace

std::set<int> PeerSockets::epolls() {
  std::set<int> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;  // one that was closed meanwhile
    if (fs::read_symlink(entry->path(), gone) != "anon_inode:[eventpoll]") continue;
    found.insert(std::stoi(entry->path().filename().string()));
  }
  return found;
}

void PeerSockets::find(size_t count) {
  sockets_.clear();
  for (const int epoll : epolls()) {
    if (before_.contains(epoll)) continue;
    for (const int descriptor : watched_by(epoll)) {
      if (is_connected(descriptor)) sockets_.push_back(descriptor);
    }
  }
  if (sockets_.size() != count) sockets_.clear();
}

std::optional<SocketBytes> PeerSockets::bytes() const {
  if (sockets_.empty()) return std::nullopt;
  SocketBytes sum;
  for (const int socket : sockets_) {
    const std::optional<tcp_info> info = info_of(socket);
    if (!info) return std::nullopt;
    // What is in the socket's buffer is as good as sent: the group is done with it.
    sum.sent += static_cast<int64_t>(info->tcpi_bytes_sent) + info->tcpi_notsent_bytes;
    sum.received += static_cast<int64_t>(info->tcpi_bytes_received);
  }
  return sum;
}

}  // namespace tern
