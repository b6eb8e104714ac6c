// Files from a web server on loopback for tests that cuts, stalls and lies: every answer, also the
// bad ones, is put together from parts by the test. One connection for each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/test_web_server.h"

namespace tern {

// Owned by one test. The handler is called by one thread at a time.
class TestHttpServer {
 public:
  using Request = TestWebServer::Request;

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

  explicit TestHttpServer(Handler handler) : handler_(std::move(handler)) {}

  std::string url(const std::string& target = "/file") const { return server_.url(target); }
  std::vector<Request> requests() const { return server_.requests(); }

 private:
  TestWebServer::Reply reply(const Request& request) {
    const Answer answer = [&] {
      MutexLock lock(mutex_);
      return handler_(request);
    }();
    std::string head =
        fmt::format("HTTP/1.1 {} Told By A Test\r\nConnection: close\r\n", answer.status);
    for (const std::string& line : answer.headers) head += line + "\r\n";
    if (answer.length == Answer::Length::told) {
      const auto size = static_cast<int64_t>(answer.body.size());
      head += fmt::format("Content-Length: {}\r\n",
                          answer.claimed_bytes >= 0 ? answer.claimed_bytes : size);
    }
    head += "\r\n";
    using Then = TestWebServer::Reply::Then;
    if (request.method == "HEAD") return {.bytes = head, .then = Then::close};
    const size_t sent =
        answer.cut_after >= 0 ? static_cast<size_t>(answer.cut_after) : answer.body.size();
    return {.bytes = head + answer.body.substr(0, sent),
            .then = answer.stall ? Then::stall : Then::close};
  }

  const Handler handler_;
  Mutex mutex_;  // one at a time
  // Last: its threads use the above.
  TestWebServer server_{[this](const Request& request) { return reply(request); }};
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
