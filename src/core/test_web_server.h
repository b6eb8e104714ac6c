// A web server on loopback for tests that keeps its connections, many at once, and sends what the
// test says to the byte. (test_http_server.h is for files: one connection for each answer.)
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"

namespace tern {

// Owned by one test. Each connection has a thread of its own, which calls the handler: it may
// block.
class TestWebServer {
 public:
  struct Request {
    std::string method;
    std::string target;                          // as sent
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
    int connection = 0;  // counted from 1

    std::string header(const std::string& name) const {
      const auto found = headers.find(name);
      return found == headers.end() ? "" : found->second;
    }
    // Of "Range: bytes=N-"; 0 without one.
    size_t first_byte() const {
      const std::string range = header("range");
      return range.starts_with("bytes=") ? std::stoull(range.substr(6)) : 0;
    }
  };

  struct Reply {
    std::string bytes;  // head and body, whatever they are
    enum class Then { keep, close, stall } then = Then::keep;
    std::string dripped = {};  // after `bytes`, so many of them every 10 ms
    size_t dripped_at_once = 1;
  };
  using Handler = std::function<Reply(const Request&)>;

  // A good answer: a line, the headers, Content-Length, the body.
  static std::string answer(int status, const std::string& body = "",
                            const std::vector<std::string>& headers = {}) {
    std::string head = fmt::format("HTTP/1.1 {} Told By A Test\r\n", status);
    for (const std::string& line : headers) head += line + "\r\n";
    return fmt::format("{}Content-Length: {}\r\n\r\n{}", head, body.size(), body);
  }

  explicit TestWebServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    const bool listens = ::bind(listener_, plain, size) == 0 && ::listen(listener_, 128) == 0 &&
                         ::getsockname(listener_, plain, &size) == 0;
    port_ = listens ? ntohs(address.sin_port) : 0;
    acceptor_ = std::jthread([this] { accept_all(); });
  }
  ~TestWebServer() {
    ::shutdown(listener_, SHUT_RDWR);  // ends accept()
    acceptor_.join();
    {
      MutexLock lock(mutex_);
      for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
    }
    threads_.clear();  // joins them
    ::close(listener_);
  }
  TestWebServer(const TestWebServer&) = delete;
  TestWebServer& operator=(const TestWebServer&) = delete;

  std::string url(const std::string& target = "/thing") const {
    return fmt::format("http://127.0.0.1:{}{}", port_, target);
  }
  std::vector<Request> requests() const {
    MutexLock lock(mutex_);
    return requests_;
  }
  int connections() const {
    MutexLock lock(mutex_);
    return connections_;
  }
  size_t open_at_once_max() const {
    MutexLock lock(mutex_);
    return open_max_;
  }

 private:
  void accept_all() {
    for (;;) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const int on = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      int number = 0;
      {
        MutexLock lock(mutex_);
        number = ++connections_;
        open_.push_back(socket);
        open_max_ = std::max(open_max_, open_.size());
      }
      threads_.emplace_back([this, socket, number] { serve(socket, number); });
    }
  }

  void serve(int socket, int number) {
    std::string unread;
    Request request;
    while (read(socket, unread, request)) {
      request.connection = number;
      {
        MutexLock lock(mutex_);
        requests_.push_back(request);
      }
      const Reply reply = handler_(request);
      if (!send_all(socket, reply.bytes) || !drip(socket, reply)) break;
      if (reply.then == Reply::Then::close) break;
      char byte = 0;
      if (reply.then == Reply::Then::stall && ::recv(socket, &byte, 1, 0) <= 0) break;
    }
    MutexLock lock(mutex_);
    std::erase(open_, socket);
    ::close(socket);
  }

  static bool receive(int socket, std::string& unread) {
    char piece[65536];
    const ssize_t got = ::recv(socket, piece, sizeof piece, 0);
    if (got > 0) unread.append(piece, static_cast<size_t>(got));
    return got > 0;
  }

  static bool read(int socket, std::string& unread, Request& request) {
    while (unread.find("\r\n\r\n") == std::string::npos) {
      if (!receive(socket, unread)) return false;
    }
    request = parse(unread);
    const size_t head = unread.find("\r\n\r\n") + 4;
    const std::string length = request.header("content-length");
    const size_t size = head + (length.empty() ? 0 : std::stoull(length));
    while (unread.size() < size) {
      if (!receive(socket, unread)) return false;
    }
    request.body = unread.substr(head, size - head);
    unread.erase(0, size);
    return true;
  }

  static Request parse(const std::string& text) {
    Request request;
    request.method = text.substr(0, text.find(' '));
    const size_t target = request.method.size() + 1;
    request.target = text.substr(target, text.find(' ', target) - target);
    for (size_t line = text.find("\r\n") + 2; text.compare(line, 2, "\r\n") != 0;) {
      const size_t end = text.find("\r\n", line);
      const size_t colon = text.find(':', line);
      std::string name = text.substr(line, colon - line);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const size_t value = std::min(text.find_first_not_of(' ', colon + 1), end);
      request.headers[name] = text.substr(value, end - value);
      line = end + 2;
    }
    return request;
  }

  static bool drip(int socket, const Reply& reply) {
    for (size_t at = 0; at < reply.dripped.size(); at += reply.dripped_at_once) {
      pollfd leaves{.fd = socket, .events = POLLIN, .revents = 0};
      if (::poll(&leaves, 1, 10) != 0) return false;
      if (!send_all(socket, std::string_view(reply.dripped).substr(at, reply.dripped_at_once))) {
        return false;
      }
    }
    return true;
  }

  static bool send_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;

  mutable Mutex mutex_;
  int connections_ GUARDED_BY(mutex_) = 0;
  size_t open_max_ GUARDED_BY(mutex_) = 0;
  std::vector<int> open_ GUARDED_BY(mutex_);
  std::vector<Request> requests_ GUARDED_BY(mutex_);

  std::vector<std::jthread> threads_;  // only the acceptor adds
  std::jthread acceptor_;
};

}  // namespace tern
