#include "preempt/aws_watcher.h"

#include <gmock/gmock.h>

#include <atomic>

#include "preempt/test_watch.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr char kAction[] = "/latest/meta-data/spot/instance-action";
constexpr char kRebalance[] = "/latest/meta-data/events/recommendations/rebalance";
constexpr char kTerminate[] = R"({"action": "terminate", "time": "2026-03-01T12:34:56Z"})";
constexpr int64_t kTerminateMs = 1'772'368'496'000;

// The service as AWS describes it; what it says about the machine is the test's.
class AwsWatcherTest : public WatchTest {
 protected:
  Reply serve(const Request& request) {
    if (request.method == "PUT" && request.target == "/latest/api/token") {
      if (request.header("x-aws-ec2-metadata-token-ttl-seconds") != "21600") return status(400);
      return good(fmt::format("token-{}", ++tokens_));
    }
    if (request.method != "GET") return status(405);
    if (request.header("x-aws-ec2-metadata-token") != fmt::format("token-{}", tokens_.load())) {
      ++refusals_;
      return status(401);
    }
    ++looks_;
    if (request.target == kAction) return action_ ? action_() : status(404);
    if (request.target == kRebalance) return rebalance_ ? rebalance_() : status(404);
    return status(404);
  }

  std::atomic<int> tokens_ = 0;
  std::atomic<int> refusals_ = 0;
  std::atomic<int> looks_ = 0;
  std::function<Reply()> action_;
  std::function<Reply()> rebalance_;
};

TEST_F(AwsWatcherTest, AnInterruptionIsOneNoticeWithItsDeadline) {
  action_ = [this] { return looks_ < 10 ? status(404) : good(kTerminate); };
  TestWebServer server([this](const Request& request) { return serve(request); });
  const AwsWatcher watcher(setup(server));
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  const Notice notice = *board_.notice();
  EXPECT_EQ(notice.kind, NoticeKind::preempt);
  EXPECT_EQ(notice.source, "AWS spot interruption (terminate)");
  EXPECT_EQ(notice.deadline_unix_ms, kTerminateMs);
  EXPECT_GE(notice.unix_ms, 1'700'000'004'000);
  EXPECT_EQ(notice.id.size(), 16U);
  EXPECT_EQ(tokens_, 1);
  EXPECT_THAT(board_.all(), SizeIs(1));
}

TEST_F(AwsWatcherTest, ARebalanceRecommendationIsAdviceOnce) {
  rebalance_ = [this] {
    return good(fmt::format(R"({{"noticeTime": "2026-03-01T12:34:{:02}Z"}})", looks_ % 60));
  };
  TestWebServer server([this](const Request& request) { return serve(request); });
  const AwsWatcher watcher(setup(server));
  ASSERT_TRUE(eventually([&] { return looks_ > 20; }));
  ASSERT_THAT(board_.all(), SizeIs(1));
  EXPECT_EQ(board_.all()[0].kind, NoticeKind::advice);
  EXPECT_EQ(board_.all()[0].source, "AWS rebalance recommendation");
  EXPECT_FALSE(board_.notice().has_value());
}

TEST_F(AwsWatcherTest, ATokenThatTheServiceForgotIsRenewedAtOnce) {
  TestWebServer server([this](const Request& request) { return serve(request); });
  {
    const AwsWatcher watcher(setup(server));
    ASSERT_TRUE(eventually([&] { return looks_ > 5; }));
    ++tokens_;  // as by a restart: it knows another one now
    ASSERT_TRUE(eventually([&] { return tokens_ == 3; }));
    const int looks = looks_;
    ASSERT_TRUE(eventually([&] { return looks_ > looks + 5; }));
  }
  EXPECT_EQ(refusals_, 1);
  EXPECT_EQ(logged(), "");
}

TEST_F(AwsWatcherTest, ATokenIsRenewedBeforeItEnds) {
  TestWebServer server([this](const Request& request) { return serve(request); });
  const AwsWatcher watcher(setup(server));
  ASSERT_TRUE(eventually([&] { return looks_ > 2; }));
  EXPECT_EQ(tokens_, 1);
  clock_.advance(std::chrono::seconds(21'600 - 300));
  EXPECT_TRUE(eventually([&] { return tokens_ == 2; }));
  EXPECT_EQ(refusals_, 0);
}

TEST_F(AwsWatcherTest, AServiceWhoseTokensAreRefusedIsNotAskedWithoutEnd) {
  TestWebServer server(
      [](const Request& request) { return request.method == "PUT" ? good("token") : status(401); });
  {
    const AwsWatcher watcher(setup(server));
    // None is answered, and so the pauses grow.
    ASSERT_TRUE(eventually([&] { return server.requests().size() >= 60; }));
  }
  EXPECT_GT(clock_.now(), std::chrono::seconds(300));
  EXPECT_THAT(logged(), HasSubstr("status 401"));
}

TEST_F(AwsWatcherTest, GarbageIsNoNotice) {
  TestWebServer elsewhere([](const Request&) { return good(kTerminate); });
  for (const Reply& reply : garbage(kTerminate, elsewhere.url())) {
    for (const char* where : {"/latest/api/token", kAction, kRebalance}) {
      SCOPED_TRACE(fmt::format("{} {}", where, reply.bytes.substr(0, 60)));
      std::atomic<int> garbled = 0;
      TestWebServer server([&](const Request& request) {
        if (request.target != where) return serve(request);
        ++garbled;
        return reply;
      });
      CloudSetup setup = this->setup(server);
      setup.limit = Milliseconds(50);
      const AwsWatcher watcher(setup);
      ASSERT_TRUE(eventually([&] { return garbled >= 3; }));
    }
  }
  EXPECT_THAT(board_.all(), SizeIs(0));
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST_F(AwsWatcherTest, ATokenThatWouldBeTwoHeadersIsNotSent) {
  TestWebServer server([](const Request& request) {
    return request.method == "PUT" ? good("a\r\nX-Forwarded-For: b") : good(kTerminate);
  });
  {
    const AwsWatcher watcher(setup(server));
    ASSERT_TRUE(eventually([&] { return server.requests().size() >= 5; }));
  }
  for (const Request& request : server.requests()) EXPECT_EQ(request.method, "PUT");
  EXPECT_THAT(board_.all(), SizeIs(0));
}

TEST_F(AwsWatcherTest, TheDestructorBreaksAQuestionOff) {
  TestWebServer server([](const Request&) -> Reply { return {.then = Then::stall}; });
  CloudSetup setup = this->setup(server);
  setup.limit = std::chrono::hours(1);
  const AwsWatcher watcher(setup);
  EXPECT_TRUE(eventually([&] { return !server.requests().empty(); }));
}

TEST(AwsAnswers, AreReadAsAwsWritesThem) {
  for (const char* action : {"terminate", "stop", "hibernate"}) {
    const auto notice = parse_instance_action(
        fmt::format(R"({{"action":"{}","time":"2026-03-01T12:34:56Z"}})", action));
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->deadline_unix_ms, kTerminateMs);
    EXPECT_THAT(notice->source, HasSubstr(action));
  }
  // A warning without a readable time is still one.
  EXPECT_EQ(parse_instance_action(R"({"action": "stop", "time": 7})")->deadline_unix_ms, 0);
  EXPECT_EQ(parse_instance_action(R"({"action": "stop"})")->deadline_unix_ms, 0);
  for (const char* text : {"", "null", "[]", R"({"action": "dance"})", R"({"action": ["stop"]})",
                           R"({"time": "2026-03-01T12:34:56Z"})", "{\"action\": \"stop\""}) {
    EXPECT_FALSE(parse_instance_action(text)) << text;
  }
  EXPECT_TRUE(parse_rebalance(R"({"noticeTime": "2026-03-01T12:34:56Z"})"));
  for (const char* text : {"", "{}", R"({"noticeTime": ""})", R"({"noticeTime": 1})", "7"}) {
    EXPECT_FALSE(parse_rebalance(text)) << text;
  }
}

}  // namespace
}  // namespace tern
