// The proxy with which other tests spoil connections does what it says, no more and no less.
#include "fault_proxy.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_framing.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void say(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

// False at the end of the connection.
bool hear_more(int socket, std::string& heard) {
  char bytes[4096];
  const ssize_t got = ::recv(socket, bytes, sizeof bytes, 0);
  if (got > 0) heard.append(bytes, static_cast<size_t>(got));
  return got > 0;
}

// Notes what arrives, and gives the answers it was made with in turn (the last one again and
// again). One connection at a time, one request each.
class Upstream {
 public:
  explicit Upstream(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_, plain, size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, plain, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~Upstream() {
    ::shutdown(listener_, SHUT_RDWR);  // ends accept()
    thread_.join();
    ::close(listener_);
  }

  int port() const { return port_; }

  // The requests, or what arrived of them; waits for so many, a while.
  std::vector<std::string> heard(size_t count) {
    MutexLock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] {
      mutex_.assert_held();
      return heard_.size() >= count;
    });
    return heard_;
  }

 private:
  void serve() {
    size_t answered = 0;
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      std::string request;
      while (!request_size(request) && hear_more(connection, request)) {
      }
      if (request_size(request)) {
        say(connection, answers_[std::min(++answered, answers_.size()) - 1]);
      }
      ::close(connection);
      MutexLock lock(mutex_);
      heard_.push_back(request);
      changed_.notify_all();
    }
  }

  const std::vector<std::string> answers_;
  int listener_ = -1;
  int port_ = 0;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> heard_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses all of the above
};

// A connection to the proxy.
class Caller {
 public:
  explicit Caller(const FaultProxy& proxy)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = loopback(proxy.port());
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Caller() { ::close(socket_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void send(const std::string& request) { say(socket_, request); }
  // One answer, or what there was of it before the connection ended.
  std::string answer(const std::string& method = "GET") {
    for (;;) {
      if (const auto size = answer_size(rest_, method, Sender::may_go_on)) {
        return take(*size);
      }
      if (!hear_more(socket_, rest_)) return take(rest_.size());
    }
  }
  std::string ask(const std::string& request) {
    send(request);
    return answer(request.substr(0, request.find(' ')));
  }

 private:
  std::string take(size_t size) {
    std::string taken = rest_.substr(0, size);
    rest_.erase(0, size);
    return taken;
  }

  const int socket_;
  std::string rest_;
};

std::string answer_with(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string kGet = "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kPut = "PUT /a HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: 10\r\n\r\n0123456789";
const std::string kChunked =
    "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n"
    "Checksum: 1\r\n\r\n";

// What a caller gets whose one request meets `step`, and what the server heard.
struct Outcome {
  std::string answer;
  std::vector<std::string> heard;
};
Outcome outcome_of(const WireStep& step, const std::string& request, size_t heard = 1) {
  Upstream upstream({answer_with("first answer"), answer_with("second answer")});
  FaultProxy proxy(scripted({step}));
  proxy.lead_to(upstream.port());
  Outcome outcome;
  outcome.answer = Caller(proxy).ask(request);
  EXPECT_EQ(proxy.requests(), 1);
  const auto faults = proxy.faults();
  EXPECT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults.begin()->first, step.fault);
  outcome.heard = upstream.heard(heard);
  return outcome;
}

TEST(FaultProxy, WithoutAPlanEverythingPasses) {
  Upstream upstream({answer_with("1"), answer_with("2"), answer_with(""), answer_with("4")});
  FaultProxy proxy(scripted({}));
  proxy.lead_to(upstream.port());
  Caller caller(proxy);  // one connection for all
  EXPECT_EQ(caller.ask(kGet), answer_with("1"));
  EXPECT_EQ(caller.ask(kPut), answer_with("2"));
  caller.send(kChunked + kGet);  // two at once
  EXPECT_EQ(caller.answer(), answer_with(""));
  EXPECT_EQ(caller.answer(), answer_with("4"));
  EXPECT_THAT(upstream.heard(4), ElementsAre(kGet, kPut, kChunked, kGet));
  EXPECT_EQ(proxy.requests(), 4);
  EXPECT_THAT(proxy.faults(), IsEmpty());
}

TEST(FaultProxy, AnswersOfEveryFormPass) {
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  const std::string until_the_end = "HTTP/1.1 200 OK\r\n\r\nhello";
  const std::string none = "HTTP/1.1 204 No Content\r\n\r\n";
  for (const std::string& answer : {chunked, until_the_end, none}) {
    Upstream upstream({answer});
    FaultProxy proxy(scripted({}));
    proxy.lead_to(upstream.port());
    EXPECT_EQ(Caller(proxy).ask(kGet), answer);
  }
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
  Upstream upstream({"HTTP/1.1 100 Continue\r\n\r\n" + head});
  FaultProxy proxy(scripted({}));
  proxy.lead_to(upstream.port());
  EXPECT_EQ(Caller(proxy).ask("HEAD /a HTTP/1.1\r\n\r\n"), head);
}

TEST(FaultProxy, AMegabyteAndAByteAtATimePass) {
  const std::string body(1 << 20, 'x');
  Upstream upstream({answer_with(body)});
  FaultProxy proxy(scripted({}));
  proxy.lead_to(upstream.port());
  Caller caller(proxy);
  for (const char c : kPut) caller.send(std::string(1, c));
  EXPECT_EQ(caller.answer(), answer_with(body));
  const std::string large =
      "PUT /b HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  EXPECT_EQ(caller.ask(large), answer_with(body));
  const auto heard = upstream.heard(2);
  EXPECT_TRUE(heard == (std::vector<std::string>{kPut, large}));
}

TEST(FaultProxy, AClientThatWaitsForItIsToldToGoOn) {
  Upstream upstream({answer_with("done")});
  FaultProxy proxy(scripted({}));
  proxy.lead_to(upstream.port());
  Caller caller(proxy);
  caller.send("PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(caller.answer(), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(caller.ask("abc"), answer_with("done"));
  EXPECT_THAT(upstream.heard(1), ElementsAre("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"));
}

TEST(FaultProxy, ACutRequestReachesTheServerInHalf) {
  const Outcome outcome = outcome_of({.fault = WireFault::cut_request}, kPut);
  EXPECT_EQ(outcome.answer, "");
  EXPECT_THAT(outcome.heard, ElementsAre(kPut.substr(0, kPut.size() / 2)));
}

TEST(FaultProxy, AfterALostOrCutAnswerTheServerHasDoneIt) {
  const Outcome lost = outcome_of({.fault = WireFault::lose_answer}, kPut);
  EXPECT_EQ(lost.answer, "");
  EXPECT_THAT(lost.heard, ElementsAre(kPut));

  const std::string whole = answer_with("first answer");
  const Outcome cut = outcome_of({.fault = WireFault::cut_answer}, kPut);
  EXPECT_LE(cut.answer.size(), whole.size() / 2);  // a reset may overtake what was sent
  EXPECT_THAT(whole, StartsWith(cut.answer));
  EXPECT_THAT(cut.heard, ElementsAre(kPut));

  const Outcome truncated = outcome_of({.fault = WireFault::truncate}, kPut);
  EXPECT_EQ(truncated.answer, whole.substr(0, whole.size() - 6));
  EXPECT_THAT(truncated.heard, ElementsAre(kPut));
}

TEST(FaultProxy, ServersInTroubleAreNotAsked) {
  const Outcome failed = outcome_of({.fault = WireFault::fail}, kPut, 0);
  EXPECT_THAT(failed.answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(failed.answer, Not(HasSubstr("Retry-After")));
  EXPECT_THAT(failed.heard, IsEmpty());
  const Outcome busy = outcome_of({.fault = WireFault::busy, .retry_after_s = 7}, kPut, 0);
  EXPECT_THAT(busy.answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(busy.answer, HasSubstr("\r\nRetry-After: 7\r\n"));
  EXPECT_THAT(busy.heard, IsEmpty());
  const Outcome throttled = outcome_of({.fault = WireFault::throttle}, kPut, 0);
  EXPECT_THAT(throttled.answer, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(throttled.heard, IsEmpty());
}

TEST(FaultProxy, TheConnectionOutlivesAServerInTrouble) {
  Upstream upstream({answer_with("at last")});
  FaultProxy proxy(scripted({{.fault = WireFault::busy}}));
  proxy.lead_to(upstream.port());
  Caller caller(proxy);
  EXPECT_THAT(caller.ask("HEAD /a HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(caller.ask(kGet), answer_with("at last"));
}

TEST(FaultProxy, ARepeatedRequestHasItsSecondAnswer) {
  const Outcome outcome = outcome_of({.fault = WireFault::repeat}, kPut, 2);
  EXPECT_EQ(outcome.answer, answer_with("second answer"));
  EXPECT_THAT(outcome.heard, ElementsAre(kPut, kPut));
}

TEST(FaultProxy, ADelayDelaysOneRequestAndNotTheOthers) {
  Upstream upstream({answer_with("1")});
  FaultProxy proxy(scripted({{.delay = Milliseconds(60'000)}, {.delay = Milliseconds(30)}}));
  proxy.lead_to(upstream.port());
  Caller slow(proxy);
  slow.send(kGet);
  while (proxy.requests() == 0) std::this_thread::yield();
  SystemClock clock;
  const Nanoseconds begin = clock.now();
  EXPECT_EQ(Caller(proxy).ask(kGet), answer_with("1"));
  EXPECT_GE(clock.now() - begin, Milliseconds(30));
  EXPECT_LT(clock.now() - begin, Milliseconds(30'000));
}

TEST(FaultProxy, WithoutAServerTheConnectionBreaks) {
  FaultProxy proxy(scripted({}));
  EXPECT_EQ(Caller(proxy).ask(kGet), "");
}

TEST(FaultProxy, ASeededShareIsTheSameEveryTime) {
  const WirePlan plan = faulty_share(5, 1);
  const WirePlan again = faulty_share(5, 1);
  std::map<WireFault, int> drawn;
  for (int64_t number = 0; number < 1000; ++number) {
    const WireStep step = plan({.number = number});
    EXPECT_EQ(step.fault, again({.number = number}).fault);
    EXPECT_TRUE(number % 5 == 4 || (step.fault == WireFault::none && step.delay.count() == 0));
    if (number % 5 == 4) ++drawn[step.fault];
  }
  EXPECT_THAT(drawn, SizeIs(9));  // each of them, and delays as none
}

}  // namespace
}  // namespace tern
