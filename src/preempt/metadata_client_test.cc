#include "preempt/metadata_client.h"

#include <gmock/gmock.h>

#include <thread>

#include "preempt/test_watch.h"

namespace tern {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

using MetadataClientTest = WatchTest;

TEST_F(MetadataClientTest, AsksPastEveryProxy) {
  TestWebServer proxy([](const Request&) { return good("from the proxy"); });
  TestWebServer server([](const Request&) { return good("from the service"); });
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
    setenv(name, proxy.url("").c_str(), 1);
  }
  MetadataClient client(server.url(""));
  const auto answer = client.ask({.path = "/a"}, {});
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) unsetenv(name);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->body, "from the service");
  EXPECT_EQ(proxy.connections(), 0);
}

TEST_F(MetadataClientTest, ARedirectIsAnAnswerAndNotFollowed) {
  TestWebServer elsewhere([](const Request&) { return good("bait"); });
  TestWebServer server([&](const Request&) -> Reply {
    return {.bytes = TestWebServer::answer(301, "", {"Location: " + elsewhere.url("/")})};
  });
  MetadataClient client(server.url(""));
  EXPECT_EQ(client.ask({.path = "/a"}, {}).value_or({}).status, 301);
  EXPECT_FALSE(client.ask_for_value({.path = "/a"}, {}));
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST_F(MetadataClientTest, WaitsNoLongerThanItsLimitForBytesThatTrickle) {
  // Each byte would begin a limit on silence anew.
  TestWebServer server([](const Request&) -> Reply {
    return {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", .then = Then::stall};
  });
  MetadataClient client(server.url(""));
  const auto answer = client.ask({.path = "/a", .limit = Milliseconds(30)}, {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::unavailable);
}

class MetadataPaceTest : public WatchTest {
 protected:
  MetadataPace pace() {
    return MetadataPace({.service = "service", .clock = &clock_, .log = &log_});
  }
  const Status failed_ = fail(Code::unavailable, "nobody is there");
};

TEST_F(MetadataPaceTest, CountsFromQuestionToQuestion) {
  MetadataPace pace = this->pace();
  clock_.advance(Milliseconds(300));
  ASSERT_TRUE(pace.wait({}, {}));
  EXPECT_EQ(clock_.now(), seconds(1));
  clock_.advance(seconds(5));  // an answer that took long
  ASSERT_TRUE(pace.wait({}, {}));
  EXPECT_EQ(clock_.now(), seconds(6));
  ASSERT_TRUE(pace.wait({}, {}));
  EXPECT_EQ(clock_.now(), seconds(7));
}

TEST_F(MetadataPaceTest, AServiceThatFailsIsAskedEverLessOftenAndThatIsSaidOnce) {
  MetadataPace pace = this->pace();
  for (const int64_t pause : {1, 2, 4, 8, 16, 30, 30}) {
    const Nanoseconds before = clock_.now();
    ASSERT_TRUE(pace.wait(failed_, {}));
    EXPECT_EQ(clock_.now() - before, seconds(pause));
  }
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pace.wait(failed_, {}));
  const std::string text = logged();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("training goes on"), HasSubstr("nobody is there")));
  // Back to its pace at the first answer.
  const Nanoseconds before = clock_.now();
  ASSERT_TRUE(pace.wait({}, {}));
  EXPECT_EQ(clock_.now() - before, seconds(1));
  EXPECT_THAT(logged(), HasSubstr("answers again"));
}

TEST_F(MetadataPaceTest, AFailureNowAndThenIsNotSaid) {
  MetadataPace pace = this->pace();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pace.wait(failed_, {}));
    ASSERT_TRUE(pace.wait(failed_, {}));
    ASSERT_TRUE(pace.wait({}, {}));
  }
  EXPECT_EQ(logged(), "");
}

TEST_F(MetadataPaceTest, AStopEndsTheWait) {
  SystemClock clock;
  MetadataPace pace({.service = "service", .every = minutes(10), .clock = &clock, .log = &log_});
  std::stop_source stop;
  const std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(pace.wait({}, stop.get_token()));
  EXPECT_FALSE(pace.wait({}, stop.get_token()));
}

}  // namespace
}  // namespace tern
