// A small web server on loopback for tests: every answer, also the bad ones, is made by the test.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"

namespace tern {

// Owned by one test. One connection at a time, on its own thread, which calls the handler.
class TestHttpServer {
 public:
  struct Request {
    std::string method;
    std::string path;
    std::map<std::string, std::string> headers;  // names in lower case

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

  struct Answer {
    int status = 200;
    std::vector<std::string> headers;  // "ETag: \"1\""
    std::string body;
    enum class Length { told, not_told } length = Length::told;
    int64_t claimed_bytes = -1;  // Content-Length, if it shall be another than the body's
    int64_t cut_after = -1;      // of the body, then the connection is broken; -1: whole
    bool stall = false;          // ... or kept open without another byte
  };

  using Handler = std::function<Answer(const Request&)>;

  explicit TestHttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    const bool listens = ::bind(listener_, plain, size) == 0 && ::listen(listener_, 16) == 0 &&
                         ::getsockname(listener_, plain, &size) == 0;
    port_ = listens ? ntohs(address.sin_port) : 0;
    thread_ = std::jthread([this] { serve(); });
  }
  ~TestHttpServer() {
    ::shutdown(listener_, SHUT_RDWR);  // ends accept()
    {
      MutexLock lock(mutex_);
      if (connection_ >= 0) ::shutdown(connection_, SHUT_RDWR);
    }
    thread_.join();
    ::close(listener_);
  }
  TestHttpServer(const TestHttpServer&) = delete;
  TestHttpServer& operator=(const TestHttpServer&) = delete;

  std::string url(const std::string& path = "/file") const {
    return fmt::format("http://127.0.0.1:{}{}", port_, path);
  }

  std::vector<Request> requests() const {
    MutexLock lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      {
        MutexLock lock(mutex_);
        connection_ = connection;
      }
      answer(connection);
      MutexLock lock(mutex_);
      connection_ = -1;
      ::close(connection);
    }
  }

  void answer(int connection) {
    std::string text;
    char byte = 0;
    while (!text.ends_with("\r\n\r\n")) {
      if (::recv(connection, &byte, 1, 0) != 1) return;
      text += byte;
    }
    const Request request = parse(text);
    {
      MutexLock lock(mutex_);
      requests_.push_back(request);
    }
    const Answer answer = handler_(request);
    std::string head =
        fmt::format("HTTP/1.1 {} Told By A Test\r\nConnection: close\r\n", answer.status);
    for (const std::string& line : answer.headers) head += line + "\r\n";
    if (answer.length == Answer::Length::told) {
      const auto size = static_cast<int64_t>(answer.body.size());
      head += fmt::format("Content-Length: {}\r\n",
                          answer.claimed_bytes >= 0 ? answer.claimed_bytes : size);
    }
    send_all(connection, head + "\r\n");
    if (request.method == "HEAD") return;
    send_all(connection, answer.cut_after >= 0
                             ? answer.body.substr(0, static_cast<size_t>(answer.cut_after))
                             : answer.body);
    if (answer.stall) [[maybe_unused]]
      const ssize_t got = ::recv(connection, &byte, 1, 0);
  }

  static Request parse(const std::string& text) {
    Request request;
    request.method = text.substr(0, text.find(' '));
    const size_t path = request.method.size() + 1;
    request.path = text.substr(path, text.find(' ', path) - path);
    for (size_t line = text.find("\r\n") + 2; line + 2 < text.size();) {
      const size_t end = text.find("\r\n", line);
      const size_t colon = text.find(": ", line);
      std::string name = text.substr(line, colon - line);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = text.substr(colon + 2, end - colon - 2);
      line = end + 2;
    }
    return request;
  }

  static void send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;

  mutable Mutex mutex_;
  int connection_ GUARDED_BY(mutex_) = -1;
  std::vector<Request> requests_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all of the above
};

// What a good server says to a request for `body`: the whole, or the range that was asked for if
// If-Range still holds.
inline TestHttpServer::Answer serve_file(const TestHttpServer::Request& request,
                                         const std::string& body, const std::string& etag) {
  const size_t first = request.first_byte();
  const std::string condition = request.header("if-range");
  const std::string tag = "ETag: " + etag;
  if (first == 0 || (!condition.empty() && condition != etag))
    return {.headers = {tag}, .body = body};
  if (first >= body.size()) {
    return {.status = 416,
            .headers = {tag, fmt::format("Content-Range: bytes */{}", body.size())},
            .body = "there is no more"};
  }
  return {.status = 206,
          .headers = {tag, fmt::format("Content-Range: bytes {}-{}/{}", first, body.size() - 1,
                                       body.size())},
          .body = body.substr(first)};
}

}  // namespace tern
