// What goes wrong between an HttpClient and a server: silence, garbage, cuts, ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "core/http_client.h"
#include "core/test_web_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Request = TestWebServer::Request;
using Reply = TestWebServer::Reply;
using Then = TestWebServer::Reply::Then;

std::unique_ptr<HttpClient> make_client(const HttpOptions& options = {}) {
  Result<std::unique_ptr<HttpClient>> client = HttpClient::create(options);
  EXPECT_TRUE(client) << client.error().message;
  return std::move(*client);
}

Code code_of(const Result<HttpAnswer>& answer) {
  return answer ? Code::internal : answer.error().code;
}

// Sends the bytes that it was given last.
class OneReplyServer {
 public:
  explicit OneReplyServer(Then then) : then_(then) {}

  void say(std::string bytes) {
    MutexLock lock(mutex_);
    bytes_ = std::move(bytes);
  }
  std::string url() const { return server_.url(); }

 private:
  const Then then_;
  Mutex mutex_;
  std::string bytes_ GUARDED_BY(mutex_);
  TestWebServer server_{[this](const Request&) -> Reply {
    MutexLock lock(mutex_);
    return {.bytes = bytes_, .then = then_};
  }};
};

TEST(HttpClientFaults, AServerThatIsNotThereIsUnavailable) {
  std::string url;
  {
    TestWebServer server([](const Request&) { return Reply(); });
    url = server.url();
  }
  const auto client = make_client();
  const Result<HttpAnswer> answer = client->send({.url = url});
  EXPECT_EQ(code_of(answer), Code::unavailable);
  EXPECT_THAT(answer.error().message, AllOf(HasSubstr(url), HasSubstr("try again")));
}

TEST(HttpClientFaults, GarbageIsUnavailable) {
  OneReplyServer server(Then::close);
  const auto client = make_client();
  for (const std::string garbage :
       {"",
        "\r\n",
        "\r\n\r\n",
        "garbage\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 999 OK\r\n\r\n",
        "HTTP/1.1 000 OK\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\xfc\x03\x03"}) {
    server.say(garbage);
    const Result<HttpAnswer> answer = client->send({.url = server.url()});
    EXPECT_EQ(code_of(answer), Code::unavailable)
        << garbage << (answer ? "" : ": " + answer.error().message);
  }
  std::string endless = "HTTP/1.1 200 OK\r\n";
  while (endless.size() < 10'000'000) endless += "x-more: and more\r\n";
  server.say(endless);
  EXPECT_EQ(code_of(client->send({.url = server.url()})), Code::unavailable);
  server.say(TestWebServer::answer(200, "fine"));
  EXPECT_EQ(client->send({.url = server.url()}).value_or({}).body, "fine");
}

TEST(HttpClientFaults, ABodyThatIsCutIsNoAnswer) {
  const std::string body(200'000, 'x');
  const std::string whole = TestWebServer::answer(200, body);
  OneReplyServer server(Then::close);
  const auto client = make_client();
  for (const size_t missing : {size_t{1}, size_t{100'000}, body.size()}) {
    server.say(whole.substr(0, whole.size() - missing));
    const Result<HttpAnswer> answer = client->send({.url = server.url()});
    EXPECT_EQ(code_of(answer), Code::unavailable) << missing;
  }
  for (const char* chunks : {"5\r\nhello\r\n", "5\r\nhel", "5\r\nhello\r\n0\r\n"}) {
    server.say(std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") + chunks);
    EXPECT_EQ(code_of(client->send({.url = server.url()})), Code::unavailable) << chunks;
  }
  server.say(whole);
  EXPECT_TRUE(client->send({.url = server.url()}).value_or({}).body == body);
}

TEST(HttpClientFaults, AnAnswerBeyondItsLimitIsExhausted) {
  OneReplyServer server(Then::close);
  const auto client = make_client();
  const auto code = [&](int64_t bytes_max) {
    return code_of(client->send({.url = server.url(), .answer_bytes_max = bytes_max}));
  };
  server.say(TestWebServer::answer(200, "0123456789"));
  EXPECT_EQ(code(9), Code::exhausted);
  EXPECT_EQ(code(10), Code::internal);  // an answer
  // A length that nobody has memory for, and one that is not told.
  server.say("HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\nx");
  EXPECT_EQ(code(100), Code::exhausted);
  server.say("HTTP/1.1 200 OK\r\n\r\n0123456789");
  EXPECT_EQ(code(9), Code::exhausted);
  EXPECT_EQ(code(10), Code::internal);
}

TEST(HttpClientFaults, AStalledServerIsUnavailable) {
  OneReplyServer server(Then::stall);
  const auto client = make_client({.stall_limit = Milliseconds(50)});
  for (const std::string begun :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"}) {
    server.say(begun);
    const Result<HttpAnswer> answer = client->send({.url = server.url()});
    EXPECT_EQ(code_of(answer), Code::unavailable) << begun;
    EXPECT_THAT(answer.error().message, HasSubstr("has not moved a byte"));
    EXPECT_EQ(code_of(client->start({.url = server.url()}).wait()), Code::unavailable);
  }
}

// Each byte ends a silence, so that no stall is ever seen.
TEST(HttpClientFaults, AnAnswerThatDripsIsUnavailable) {
  const std::string drops(300, 'x');
  const std::string head = "HTTP/1.1 200 OK\r\n";
  for (const Reply& reply : {
           Reply{.bytes = head, .then = Then::close, .dripped = "A: " + drops + "\r\n\r\n"},
           Reply{.bytes = head + "Content-Length: 300\r\n\r\n", .dripped = drops},
           Reply{.bytes = head + "\r\n", .then = Then::close, .dripped = drops},
       }) {
    TestWebServer server([&](const Request&) { return reply; });
    const auto client = make_client({.stall_limit = Milliseconds(200)});
    for (const char* method : {"GET", "HEAD"}) {
      const bool ends_with_its_head = reply.bytes.ends_with("\r\n\r\n");
      if (std::string_view(method) == "HEAD" && ends_with_its_head) continue;
      const Result<HttpAnswer> answer = client->send({.method = method, .url = server.url()});
      ASSERT_EQ(code_of(answer), Code::unavailable) << method << " " << reply.bytes;
      EXPECT_THAT(answer.error().message, AllOf(HasSubstr("too slowly"), HasSubstr("try again")));
    }
    EXPECT_EQ(code_of(client->start({.url = server.url()}).wait()), Code::unavailable);
  }
}

TEST(HttpClientFaults, ASlowLinkIsWaitedForAndSoIsASlowAnswerToAChange) {
  const std::string body(4096, 'x');
  const std::string head =
      fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.size());
  TestWebServer slow([&](const Request&) -> Reply {
    return {.bytes = head, .dripped = body, .dripped_at_once = 82};  // 8 KB/s
  });
  const auto client = make_client({.stall_limit = Milliseconds(200)});
  EXPECT_EQ(client->send({.url = slow.url()}).value_or({}).body, body);
  // S3 sends blanks while it puts an upload's parts together.
  TestWebServer blanks([&](const Request&) -> Reply {
    return {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n",
            .dripped = std::string(60, ' ')};
  });
  const Result<HttpAnswer> answer = client->send({.method = "POST", .url = blanks.url()});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body_bytes, 60);
}

// Listens, and never accepts: the system connects, and takes what its buffers hold.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, plain, size), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    EXPECT_EQ(::getsockname(socket_, plain, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { ::close(socket_); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}/", port_); }

 private:
  int socket_;
  int port_ = 0;
};

TEST(HttpClientFaults, AnUploadThatNobodyReadsIsUnavailable) {
  const SilentServer server;
  const std::string body(20'000'000, 'x');
  const auto client = make_client({.stall_limit = Milliseconds(50)});
  const Result<HttpAnswer> answer =
      client->send({.method = "PUT", .url = server.url(), .body = body});
  EXPECT_EQ(code_of(answer), Code::unavailable);
}

// libcurl sends a request again when a kept connection breaks before the answer.
TEST(HttpClientFaults, OnlyWhatChangesNothingIsSentTwice) {
  std::atomic<int> answers_left = 1;
  TestWebServer server([&](const Request&) -> Reply {
    if (answers_left-- > 0) return {.bytes = TestWebServer::answer(200, "fine")};
    answers_left = 1;
    return {.bytes = "", .then = Then::close};
  });
  const auto client = make_client();
  for (const char* method : {"PUT", "POST", "DELETE"}) {
    for (const size_t size : {3U, 200'000U}) {
      answers_left = 1;
      ASSERT_TRUE(client->send({.url = server.url()}));
      const size_t before = server.requests().size();
      const std::string body(size, 'x');
      const Result<HttpAnswer> lost =
          client->send({.method = method, .url = server.url(), .body = body});
      EXPECT_EQ(code_of(lost), Code::unavailable) << method << size;
      EXPECT_EQ(server.requests().size(), before + 1) << method << size;
    }
  }
  answers_left = 1;
  ASSERT_TRUE(client->send({.url = server.url()}));
  const size_t before = server.requests().size();
  EXPECT_EQ(client->send({.url = server.url()}).value_or({}).body, "fine");
  EXPECT_EQ(server.requests().size(), before + 2);
}

TEST(HttpClientFaults, AnAnswerBeforeTheBodyWasSentIsTaken) {
  // A server that refuses at the head and closes; what it does not read breaks the connection.
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::jthread refusing([&] {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const std::string answer = TestWebServer::answer(403, "no", {"Connection: close"});
    EXPECT_GT(::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    ::shutdown(socket, SHUT_WR);
    char piece[65536];
    while (::recv(socket, piece, sizeof piece, 0) > 0) {
    }
    ::close(socket);
  });
  const std::string body(5'000'000, 'x');
  const auto client = make_client();
  const Result<HttpAnswer> answer =
      client->send({.method = "PUT",
                    .url = fmt::format("http://127.0.0.1:{}/", ntohs(address.sin_port)),
                    .body = body});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 403);
  refusing.join();
  ::close(listener);
}

TEST(HttpClientFaults, ACallThatIsDroppedIsCancelled) {
  std::atomic<bool> stalls = true;
  std::promise<void> arrived;
  TestWebServer server([&](const Request&) -> Reply {
    if (!stalls) return {.bytes = TestWebServer::answer(200, "fine")};
    arrived.set_value();
    return {.bytes = "", .then = Then::stall};
  });
  const auto client = make_client({.connections_max = 1});
  {
    const HttpClient::Call under_way = client->start({.url = server.url()});
    arrived.get_future().wait();
    const HttpClient::Call queued = client->start({.url = server.url("/queued")});
  }
  stalls = false;
  EXPECT_EQ(client->send({.url = server.url()}).value_or({}).body, "fine");
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST(HttpClientFaults, TheEndOfTheClientEndsWhatWaits) {
  std::promise<void> arrived;
  std::atomic<int> left = 2;
  TestWebServer server([&](const Request&) -> Reply {
    if (--left == 0) arrived.set_value();
    return {.bytes = "", .then = Then::stall};
  });
  auto client = make_client({.connections_max = 2});
  HttpClient::Call started = client->start({.url = server.url()});
  std::jthread sender([&server, &http = *client] {
    EXPECT_EQ(code_of(http.send({.url = server.url()})), Code::cancelled);
  });
  arrived.get_future().wait();
  HttpClient::Call queued = client->start({.url = server.url()});
  client.reset();
  EXPECT_EQ(code_of(started.wait()), Code::cancelled);
  EXPECT_EQ(code_of(queued.wait()), Code::cancelled);
}

}  // namespace
}  // namespace tern
