#include "cloud/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <deque>

#include "core/http_date.h"
#include "core/test_web_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Request = TestWebServer::Request;
using Reply = TestWebServer::Reply;
using Then = TestWebServer::Reply::Then;

std::string answer(int status, const std::vector<std::string>& headers = {}) {
  return TestWebServer::answer(status, std::to_string(status), headers);
}

// A server that gives the replies in their order, and the last of them from then on.
class TransportTest : public testing::Test {
 protected:
  TransportTest() {
    Result<std::unique_ptr<HttpClient>> http =
        HttpClient::create({.stall_limit = Milliseconds(5'000)});
    TERN_CHECK(http.has_value());
    http_ = std::move(*http);
    transport_ = std::make_unique<CloudTransport>(*http_, clock_, RetryPolicy(), 8);
  }

  Reply reply() {
    MutexLock lock(mutex_);
    Reply next = replies_.front();
    if (replies_.size() > 1) replies_.pop_front();
    return next;
  }

  CloudRequest request(const std::string& target = "/", const std::string& method = "PUT") {
    return {.make = [this, target, method](bool refresh) -> Result<HttpRequest> {
              if (refresh) ++refreshes_;
              ++made_;
              return HttpRequest{.method = method, .url = server_.url(target)};
            },
            .judge =
                [](const HttpAnswer& got) {
                  return got.status == 401 ? Verdict::new_tokens : judge_status(got.status);
                }};
  }
  Result<HttpAnswer> send(std::deque<Reply> replies) {
    {
      MutexLock lock(mutex_);
      replies_ = std::move(replies);
    }
    began_ = clock_.now();
    made_before_ = made_;
    return transport_->send(request());
  }
  // Of the last send().
  Nanoseconds elapsed() { return clock_.now() - began_; }
  int attempts() { return made_ - made_before_; }

  SimClock clock_;
  Nanoseconds began_{0};
  std::atomic<int> made_ = 0;
  int made_before_ = 0;
  std::atomic<int> refreshes_ = 0;
  Mutex mutex_;
  std::deque<Reply> replies_ GUARDED_BY(mutex_);
  TestWebServer server_{[this](const Request&) { return reply(); }};
  std::unique_ptr<HttpClient> http_;
  std::unique_ptr<CloudTransport> transport_;
};

TEST_F(TransportTest, AnAnswerAtOnceIsOneAttempt) {
  for (const int status : {200, 206, 304, 400, 403, 404, 409, 412, 416, 501}) {
    const Result<HttpAnswer> got = send({{.bytes = answer(status)}});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->status, status);
    EXPECT_EQ(attempts(), 1);
  }
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

TEST_F(TransportTest, WhatMayWorkInAMomentIsTriedAgain) {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) {
    const Result<HttpAnswer> got =
        send({{.bytes = answer(status)}, {.bytes = answer(status)}, {.bytes = answer(200)}});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->body, "200") << status;
    EXPECT_EQ(attempts(), 3) << status;
    EXPECT_LE(elapsed(), Milliseconds(100 + 200));
  }
  EXPECT_EQ(made_, 21);  // each attempt is signed anew
  EXPECT_EQ(refreshes_, 0);
}

TEST_F(TransportTest, WaitsGrowAndDiffer) {
  std::deque<Reply> replies(8, {.bytes = answer(500)});
  replies.push_back({.bytes = answer(200)});
  std::vector<Nanoseconds> took;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(send(replies));
    took.push_back(elapsed());
    EXPECT_LE(took.back(), Milliseconds(100 * 255));
  }
  std::ranges::sort(took);
  EXPECT_GT(took.back(), took.front() + Milliseconds(1'000));
  EXPECT_GT(took[10], Milliseconds(5'000));
}

TEST_F(TransportTest, RetryAfterIsWaitedOut) {
  ASSERT_TRUE(send({{.bytes = answer(503, {"Retry-After: 7"})}, {.bytes = answer(200)}}));
  EXPECT_EQ(attempts(), 2);
  EXPECT_EQ(elapsed(), std::chrono::seconds(7));
  // The clock's calendar begins at a whole second; HTTP has no finer dates.
  clock_.advance(std::chrono::seconds(8) - elapsed());
  const std::string date = format_http_date(clock_.unix_ms() + 30'000);
  EXPECT_EQ(
      send({{.bytes = answer(429, {"retry-after: " + date})}, {.bytes = answer(200)}})->status,
      200);
  EXPECT_EQ(elapsed(), std::chrono::seconds(30));
}

TEST_F(TransportTest, ARetryAfterThatIsNoneIsPassedOver) {
  for (const std::string value :
       {"-5", "soon", "99999999999999999999", "7 days", "Sun, 06 Nov 1994 08:49:37 GMT", ""}) {
    const Result<HttpAnswer> got =
        send({{.bytes = answer(503, {"Retry-After: " + value})}, {.bytes = answer(200)}});
    EXPECT_EQ(got->status, 200) << value;
    EXPECT_LE(elapsed(), Milliseconds(100)) << value;
  }
}

TEST_F(TransportTest, ARetryAfterBeyondTheDeadlineEndsItAtOnce) {
  const Result<HttpAnswer> got =
      send({{.bytes = answer(503, {"Retry-After: 3600"})}, {.bytes = answer(200)}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 503);
  EXPECT_EQ(elapsed(), Nanoseconds(0));
}

TEST_F(TransportTest, AfterTheDeadlineTheLastAnswerIsReturned) {
  Result<HttpAnswer> got = send({{.bytes = answer(500)}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->body, "500");
  EXPECT_GT(attempts(), 8);
  EXPECT_EQ(elapsed(), std::chrono::seconds(120));
  // Also if it was not the last thing that happened.
  ASSERT_TRUE(send({{.bytes = answer(200)}}));
  got = send({{.bytes = answer(502)}, {.bytes = "", .then = Then::close}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 502);
  EXPECT_GT(attempts(), 8);
}

TEST_F(TransportTest, WithoutAnyAnswerTheLastCauseIsTold) {
  const Result<HttpAnswer> got = send({{.bytes = "", .then = Then::close}});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::unavailable);
  EXPECT_THAT(got.error().message,
              AllOf(HasSubstr(" times in 120 s"), HasSubstr("127.0.0.1"), HasSubstr("try again")));
}

TEST_F(TransportTest, WritesToAServiceThatIsAwayAreGivenUpOnSoonUntilSomethingWorks) {
  const Reply away{.bytes = answer(500)};
  ASSERT_TRUE(send({away}));
  EXPECT_EQ(elapsed(), std::chrono::seconds(120));
  ASSERT_TRUE(send({away}));
  EXPECT_EQ(elapsed(), std::chrono::seconds(2));
  // Who reads cannot go on without, so it is waited for as before.
  began_ = clock_.now();
  ASSERT_TRUE(transport_->send(request("/", "GET")));
  EXPECT_EQ(elapsed(), std::chrono::seconds(120));
  EXPECT_EQ(send({away, {.bytes = answer(200)}})->status, 200);
  ASSERT_TRUE(send({away}));
  EXPECT_EQ(elapsed(), std::chrono::seconds(120));
}

TEST_F(TransportTest, AWaitOfSomeSecondsIsToldOnceAndItsEnd) {
  std::vector<std::string> told;
  transport_ = std::make_unique<CloudTransport>(
      *http_, clock_, RetryPolicy(), 8, [&](const std::string& text) { told.push_back(text); });
  ASSERT_TRUE(send({{.bytes = answer(500)}, {.bytes = answer(200)}}));
  EXPECT_TRUE(told.empty()) << "a moment is nobody's business";
  ASSERT_TRUE(send({{.bytes = answer(500)}}));
  ASSERT_TRUE(send({{.bytes = answer(500)}}));
  EXPECT_THAT(told, ElementsAre(AllOf(HasSubstr("waiting for the store"), HasSubstr("status 500"),
                                      HasSubstr("s more"))));
  ASSERT_TRUE(send({{.bytes = answer(404)}}));
  EXPECT_THAT(told.back(), HasSubstr("answers again"));
  ASSERT_FALSE(send({{.bytes = "", .then = Then::close}}));
  EXPECT_EQ(told.size(), 3U);
  EXPECT_THAT(told.back(), HasSubstr("127.0.0.1"));
}

TEST_F(TransportTest, LostRepliesCountAsAttempts) {
  const std::string cut = answer(200).substr(0, answer(200).size() - 1);
  const Result<HttpAnswer> got = send({{.bytes = "", .then = Then::close},
                                       {.bytes = cut, .then = Then::close},
                                       {.bytes = "garbage\r\n\r\n", .then = Then::close},
                                       {.bytes = answer(412)}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 412);
  EXPECT_EQ(attempts(), 4);
  EXPECT_EQ(server_.requests().size(), 4U);
}

TEST_F(TransportTest, AReplyLostOnAKeptConnectionCountsToo) {
  ASSERT_TRUE(send({{.bytes = answer(200)}}));
  const Result<HttpAnswer> got = send({{.bytes = "", .then = Then::close}, {.bytes = answer(412)}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(attempts(), 2);
}

TEST_F(TransportTest, NewTokensAreAskedForOnce) {
  Result<HttpAnswer> got = send({{.bytes = answer(401)}, {.bytes = answer(200)}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 200);
  EXPECT_EQ(refreshes_, 1);
  EXPECT_EQ(made_, 2);
  got = send({{.bytes = answer(401)}, {.bytes = answer(500)}, {.bytes = answer(401)}});
  EXPECT_EQ(got->status, 401);
  EXPECT_EQ(refreshes_, 2);
  EXPECT_EQ(made_, 5);
  // Not waited for, unlike the 500.
  got = send({{.bytes = answer(401, {"Retry-After: 60"})}, {.bytes = answer(200)}});
  EXPECT_EQ(got->status, 200);
  EXPECT_EQ(elapsed(), Nanoseconds(0));
}

TEST_F(TransportTest, WhatNoRepetitionHelpsIsToldAtOnce) {
  CloudRequest bad = request();
  bad.make = [](bool) -> Result<HttpRequest> { return fail(Code::permission_denied, "no key"); };
  EXPECT_EQ(transport_->send(bad).error().message, "no key");
  bad.make = [](bool) -> Result<HttpRequest> { return HttpRequest{.url = "ftp://a/"}; };
  EXPECT_EQ(transport_->send(bad).error().code, Code::invalid);
  bad.make = [&](bool) -> Result<HttpRequest> {
    return HttpRequest{.url = server_.url(), .answer_bytes_max = 2};
  };
  {
    MutexLock lock(mutex_);
    replies_ = {{.bytes = answer(200)}};
  }
  EXPECT_EQ(transport_->send(bad).error().code, Code::exhausted);
  EXPECT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

// As while a metadata service is away for a moment: it ends no run.
TEST_F(TransportTest, TokensThatCannotBeHadJustNowAreWaitedFor) {
  CloudRequest late = request();
  int asked = 0;
  std::vector<bool> refreshed;
  late.make = [&](bool refresh) -> Result<HttpRequest> {
    refreshed.push_back(refresh);
    const int now = ++asked;
    if (now <= 3 || now == 5) return fail(Code::unavailable, "no token just now");
    return HttpRequest{.method = "PUT", .url = server_.url()};
  };
  {
    MutexLock lock(mutex_);
    replies_ = {{.bytes = answer(401)}, {.bytes = answer(200)}};
  }
  const Result<HttpAnswer> got = transport_->send(late);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 200);
  // The fourth is sent and refused; the new tokens are asked for until they are there.
  EXPECT_THAT(refreshed, ElementsAre(false, false, false, false, true, true));
  EXPECT_GT(clock_.now(), Nanoseconds(0));

  // For as long as anything is.
  late.make = [&](bool) -> Result<HttpRequest> { return fail(Code::unavailable, "no token"); };
  began_ = clock_.now();
  const Result<HttpAnswer> none = transport_->send(late);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::unavailable);
  EXPECT_THAT(none.error().message, HasSubstr("no token"));
  EXPECT_EQ(elapsed(), std::chrono::seconds(120));
  // And then only shortly, until something works.
  began_ = clock_.now();
  ASSERT_FALSE(transport_->send(late));
  EXPECT_EQ(elapsed(), std::chrono::seconds(2));
}

// A part of 16 MiB takes longer than the deadline where it shares a slow link with fifteen others.
TEST_F(TransportTest, AnAttemptThatMovedBytesForLongIsNotTheLast) {
  const auto long_transfer = [&](int failures, Nanoseconds each, const Reply& failure) {
    began_ = clock_.now();
    made_before_ = made_;
    std::atomic<int> left = failures;
    TestWebServer slow([&, each](const Request&) -> Reply {
      clock_.advance(each);
      return left-- > 0 ? failure : Reply{.bytes = answer(200)};
    });
    CloudRequest part = request();
    part.make = [&](bool) -> Result<HttpRequest> {
      ++made_;
      return HttpRequest{.method = "PUT", .url = slow.url(), .body = "the part"};
    };
    return transport_->send(part);
  };
  const Reply reset{.bytes = "", .then = Then::close};
  for (const Reply& failure : {reset, Reply{.bytes = answer(503)}}) {
    const Result<HttpAnswer> got = long_transfer(2, std::chrono::seconds(130), failure);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(attempts(), 3);
  }
  // Some such attempts, not any number.
  const Result<HttpAnswer> never = long_transfer(1000, std::chrono::seconds(130), reset);
  ASSERT_FALSE(never);
  EXPECT_EQ(attempts(), 6);
  EXPECT_THAT(never.error().message, HasSubstr("tried 6 times in 78"));
  ASSERT_TRUE(send({{.bytes = answer(200)}}));
  // Shorter ones may have been silence.
  ASSERT_FALSE(long_transfer(1000, std::chrono::seconds(40), reset));
  EXPECT_LE(elapsed(), std::chrono::seconds(160));
}

TEST_F(TransportTest, OneAttemptIsToldAsOne) {
  transport_ =
      std::make_unique<CloudTransport>(*http_, clock_, RetryPolicy{.deadline = Milliseconds(0)}, 8);
  const Result<HttpAnswer> got = send({{.bytes = "", .then = Then::close}});
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("tried once in 0 s"));
}

// Fewer at once is what a throttle asks for; those that wait for their turn have not failed yet.
TEST(TransportTogether, TheWaitForOnesTurnIsNotCounted) {
  SimClock clock;
  const auto http = HttpClient::create({});
  ASSERT_TRUE(http);
  CloudTransport transport(**http, clock, {}, 1);
  std::atomic<int> made = 0;
  std::atomic<int> seen = 0;
  TestWebServer server([&](const Request&) -> Reply {
    const int now = ++seen;
    if (now == 1) {
      while (made < 2) std::this_thread::yield();  // the other is about to wait
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      clock.advance(std::chrono::seconds(130));
    }
    if (now == 2) return {.bytes = "", .then = Then::close};
    return {.bytes = answer(200)};
  });
  const CloudRequest request = {
      .make = [&](bool) -> Result<HttpRequest> {
        ++made;
        return HttpRequest{.method = "PUT", .url = server.url(), .body = "x"};
      },
      .judge = [](const HttpAnswer& got) { return judge_status(got.status); }};
  const auto send = [&] {
    const Result<HttpAnswer> got = transport.send(request);
    EXPECT_TRUE(got) << got.error().message;
  };
  {
    const std::jthread one(send);
    const std::jthread other(send);
  }
  EXPECT_EQ(seen, 3);
}

TEST(TransportTogether, AnswersComeInTheirOrder) {
  SimClock clock;
  std::atomic<int> at_once = 0;
  std::atomic<int> at_once_max = 0;
  TestWebServer server([&](const Request& request) -> Reply {
    const int now = ++at_once;
    for (int max = at_once_max; now > max && !at_once_max.compare_exchange_weak(max, now);) {
    }
    const std::string body = request.target;
    --at_once;
    return {.bytes = TestWebServer::answer(200, body)};
  });
  const auto http = HttpClient::create({});
  ASSERT_TRUE(http);
  CloudTransport transport(**http, clock, {}, 4);
  std::vector<CloudRequest> requests;
  for (int i = 0; i < 50; ++i) {
    requests.push_back({.make = [&, i](bool) -> Result<HttpRequest> {
                          if (i == 7) return fail(Code::invalid, "seven");
                          return HttpRequest{.url = server.url("/" + std::to_string(i))};
                        },
                        .judge = [](const HttpAnswer&) { return Verdict::done; }});
  }
  const std::vector<Result<HttpAnswer>> answers = transport.send_all(requests);
  ASSERT_EQ(answers.size(), 50U);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (i == 7) {
      EXPECT_EQ(answers[i].error().message, "seven");
      continue;
    }
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    EXPECT_EQ(answers[i]->body, "/" + std::to_string(i));
  }
  EXPECT_LE(at_once_max, 4);
  EXPECT_LE(server.connections(), 4);
  EXPECT_TRUE(transport.send_all({}).empty());
}

TEST(TransportTogether, WhatWasSentIsToldOnceWhenNobodyWaitsForItAnyMore) {
  SimClock clock;
  std::atomic<int> asked = 0;
  TestWebServer server(
      [&](const Request&) -> Reply { return {.bytes = answer(++asked == 1 ? 503 : 200)}; });
  const auto http = HttpClient::create({});
  ASSERT_TRUE(http);
  const Bytes body = "the bytes";
  std::vector<const char*> told;
  CloudTransport transport(**http, clock, {}, 1, {}, [&](BytesView bytes) {
    EXPECT_EQ(asked, 2) << "not before the attempt that was answered";
    told.push_back(bytes.data());
  });
  const auto judge = [](const HttpAnswer& got) { return judge_status(got.status); };
  ASSERT_TRUE(transport.send({.make = [&](bool) -> Result<HttpRequest> {
                                return HttpRequest{
                                    .method = "PUT", .url = server.url(), .body = body};
                              },
                              .judge = judge}));
  EXPECT_EQ(told, std::vector{body.data()});
  ASSERT_TRUE(transport.send(
      {.make = [&](bool) -> Result<HttpRequest> { return HttpRequest{.url = server.url()}; },
       .judge = judge}));
  EXPECT_EQ(told.size(), 1U) << "a request without bytes sends none";
}

TEST_F(TransportTest, AThrottleHalvesWhatMayBeInFlightAndSuccessesGrowIt) {
  EXPECT_EQ(transport_->in_flight_limit(), 8);
  ASSERT_TRUE(send({{.bytes = answer(500)}, {.bytes = answer(200)}}));
  EXPECT_EQ(transport_->in_flight_limit(), 8);
  ASSERT_TRUE(send({{.bytes = answer(503)}, {.bytes = answer(429)}, {.bytes = answer(404)}}));
  EXPECT_EQ(transport_->in_flight_limit(), 2);
  std::deque<Reply> replies(5, {.bytes = answer(503)});
  replies.push_back({.bytes = answer(200)});
  ASSERT_TRUE(send(replies));
  EXPECT_EQ(transport_->in_flight_limit(), 2);  // 1, and one success
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(send({{.bytes = answer(200)}}));
  EXPECT_EQ(transport_->in_flight_limit(), 8);
}

TEST(TransportTogether, ThrottlesOfOneMomentHalveItOnce) {
  SimClock clock;
  const auto http = HttpClient::create({});
  ASSERT_TRUE(http);
  CloudTransport transport(**http, clock, {}, 8);
  std::barrier<> all_eight(8);
  std::atomic<int> seen = 0;
  Mutex mutex;
  std::vector<int64_t> limits;  // at each request after the throttle
  TestWebServer server([&](const Request&) -> Reply {
    if (++seen <= 8) {
      all_eight.arrive_and_wait();  // eight at once, or this never ends
      return {.bytes = answer(503)};
    }
    MutexLock lock(mutex);
    limits.push_back(transport.in_flight_limit());
    return {.bytes = answer(200)};
  });
  const CloudRequest request = {
      .make = [&](bool) -> Result<HttpRequest> { return HttpRequest{.url = server.url()}; },
      .judge = [](const HttpAnswer& got) { return judge_status(got.status); }};
  const std::vector<CloudRequest> requests(60, request);
  for (const Result<HttpAnswer>& got : transport.send_all(requests)) {
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->status, 200);
  }
  ASSERT_EQ(limits.size(), 60U);
  EXPECT_EQ(limits.front(), 4);
  EXPECT_GE(std::ranges::min(limits), 4);
  EXPECT_EQ(transport.in_flight_limit(), 8);  // 60 successes later
}

}  // namespace
}  // namespace tern
