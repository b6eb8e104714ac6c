// What tests of the watchers of metadata services have in common.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/test_web_server.h"
#include "preempt/cloud_setup.h"

namespace tern {

// A board, a clock that passes as fast as questions are answered, and a log that can be read.
class WatchTest : public testing::Test {
 protected:
  using Request = TestWebServer::Request;
  using Reply = TestWebServer::Reply;
  using Then = TestWebServer::Reply::Then;

  WatchTest()
      : log_file_(open_memstream(&log_text_, &log_size_)), log_(clock_, Level::info, log_file_) {}
  ~WatchTest() override {
    std::fclose(log_file_);
    std::free(log_text_);
  }

  CloudSetup setup(const TestWebServer& server) {
    return {.board = &board_, .clock = &clock_, .log = &log_, .endpoint = server.url("")};
  }

  // Once the watcher has ended.
  std::string logged() {
    std::fflush(log_file_);
    return {log_text_, log_size_};
  }

  bool eventually(const std::function<bool()>& happened) {
    const Nanoseconds deadline = system_clock_.now() + std::chrono::seconds(60);
    while (!happened()) {
      if (system_clock_.now() > deadline) return false;
      system_clock_.wait_for(Milliseconds(1), {});
    }
    return true;
  }

  static Reply good(const std::string& body, const std::vector<std::string>& headers = {}) {
    return {.bytes = TestWebServer::answer(200, body, headers)};
  }
  static Reply status(int number) { return {.bytes = TestWebServer::answer(number, "no")}; }

  // What a service must never be taken at its word for. `tempting` is what a notice would be, which
  // the redirect leads to and the cut answer begins with.
  static std::vector<Reply> garbage(const std::string& tempting, const std::string& elsewhere) {
    return {good("<html>Welcome to the hotel's network</html>", {"Content-Type: text/html"}),
            good(""),
            good("[]"),
            good("{}"),
            good("null"),
            good(std::string("\0\xff\xfe{", 4)),
            good(std::string(100'000, '[')),
            status(400),
            status(403),
            status(500),
            status(503),
            {.bytes = TestWebServer::answer(302, tempting, {"Location: " + elsewhere})},
            {.bytes = "", .then = Then::close},
            {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + tempting,
             .then = Then::close},
            {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n" + tempting,
             .then = Then::close},
            {.bytes = "SSH-2.0-OpenSSH_9.2p1\r\n" + tempting, .then = Then::close},
            {.bytes = "", .then = Then::stall}};
  }

  SystemClock system_clock_;
  SimClock clock_;
  NoticeBoard board_;

 private:
  char* log_text_ = nullptr;
  size_t log_size_ = 0;
  std::FILE* const log_file_;

 protected:
  Log log_;
};

}  // namespace tern
