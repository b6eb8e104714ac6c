#include "preempt/azure_watcher.h"

#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "preempt/test_watch.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr char kEvents[] = "/metadata/scheduledevents?api-version=2020-07-01";
constexpr char kMachine[] = "/metadata/instance/compute?";
constexpr char kNotBefore[] = "Sun, 01 Mar 2026 12:34:56 GMT";
constexpr int64_t kNotBeforeMs = 1'772'368'496'000;

std::string event(const std::string& type, const std::string& id, const std::string& machine,
                  const std::string& not_before = kNotBefore) {
  return nlohmann::json{{"EventId", id},
                        {"EventType", type},
                        {"ResourceType", "VirtualMachine"},
                        {"Resources", {"other_1", machine}},
                        {"EventStatus", not_before.empty() ? "Started" : "Scheduled"},
                        {"NotBefore", not_before},
                        {"Description", "told by a test"},
                        {"EventSource", "Platform"},
                        {"DurationInSeconds", -1}}
      .dump();
}

std::string document(const std::vector<std::string>& events) {
  return fmt::format(R"({{"DocumentIncarnation": 1, "Events": [{}]}})", fmt::join(events, ","));
}

class AzureWatcherTest : public WatchTest {
 protected:
  Reply serve(const Request& request) {
    if (request.header("metadata") != "true") return status(400);
    if (request.target.starts_with(kMachine)) {
      return good(R"({"name": "train_0", "vmSize": "Standard_NC6s_v3"})");
    }
    if (request.target != kEvents) return status(404);
    ++looks_;
    return events_ ? events_() : good(document({}));
  }

  std::atomic<int> looks_ = 0;
  std::function<Reply()> events_;
};

TEST_F(AzureWatcherTest, AnEventIsOneNoticeWithItsIdAndDeadline) {
  events_ = [this] {
    return good(looks_ < 5 ? document({}) : document({event("Preempt", "A-1", "train_0")}));
  };
  TestWebServer server([this](const Request& request) { return serve(request); });
  const AzureWatcher watcher(setup(server));
  ASSERT_TRUE(eventually([&] { return looks_ > 10; }));
  ASSERT_THAT(board_.all(), SizeIs(1));
  const Notice notice = *board_.notice();
  EXPECT_EQ(notice.kind, NoticeKind::preempt);
  EXPECT_EQ(notice.source, "Azure scheduled event (Preempt)");
  EXPECT_EQ(notice.id, "A-1");
  EXPECT_EQ(notice.deadline_unix_ms, kNotBeforeMs);
  EXPECT_GE(notice.unix_ms, 1'700'000'003'000);
}

TEST_F(AzureWatcherTest, EventsOfOtherMachinesAreNotOurs) {
  events_ = [] { return good(document({event("Preempt", "A-1", "train_01")})); };
  TestWebServer server([this](const Request& request) { return serve(request); });
  const AzureWatcher watcher(setup(server));
  ASSERT_TRUE(eventually([&] { return looks_ > 5; }));
  EXPECT_THAT(board_.all(), SizeIs(0));
}

TEST_F(AzureWatcherTest, WithoutTheMachinesNameNoEventIsAskedFor) {
  TestWebServer server([this](const Request& request) {
    return request.target.starts_with(kMachine) ? good(R"({"name": ""})") : serve(request);
  });
  {
    const AzureWatcher watcher(setup(server));
    ASSERT_TRUE(eventually([&] { return server.requests().size() > 5; }));
  }
  EXPECT_EQ(looks_, 0);
  EXPECT_THAT(logged(), HasSubstr("name"));
}

TEST_F(AzureWatcherTest, GarbageIsNoNotice) {
  const std::string tempting = document({event("Preempt", "A-1", "train_0")});
  TestWebServer elsewhere([&](const Request&) { return good(tempting); });
  std::vector<Reply> replies = garbage(tempting, elsewhere.url());
  for (const char* body :
       {R"({"Events": null})", R"({"Events": {}})", R"({"Events": [1, null, "a", [], {}]})",
        R"({"Events": [{"EventType": "Preempt"}]})",
        R"({"Events": [{"EventType": "Preempt", "EventId": "1", "Resources": "train_0"}]})",
        R"({"Events": [{"EventType": "Preempt", "EventId": 1, "Resources": ["train_0"]}]})",
        R"({"Events": [{"EventType": "Preempt", "EventId": "", "Resources": ["train_0"]}]})",
        R"({"Events": [{"EventType": "Dance", "EventId": "1", "Resources": ["train_0"]}]})"}) {
    replies.push_back(good(body));
  }
  for (const Reply& reply : replies) {
    for (const char* where : {kEvents, kMachine}) {
      SCOPED_TRACE(fmt::format("{} {}", where, reply.bytes.substr(0, 60)));
      std::atomic<int> garbled = 0;
      TestWebServer server([&](const Request& request) {
        if (!request.target.starts_with(where)) return serve(request);
        ++garbled;
        return reply;
      });
      CloudSetup setup = this->setup(server);
      setup.limit = setup.first_limit = Milliseconds(50);
      const AzureWatcher watcher(setup);
      ASSERT_TRUE(eventually([&] { return garbled >= 3; }));
    }
  }
  EXPECT_THAT(board_.all(), SizeIs(0));
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST_F(AzureWatcherTest, AnEventIsAcknowledgedOnceAndOnlyIfThatIsAskedFor) {
  events_ = [] {
    return good(document({event("Preempt", "A-1", "train_0"), event("Freeze", "A-2", "train_0"),
                          event("Reboot", "B-1", "other_0")}));
  };
  for (const bool acknowledge : {false, true}) {
    TestWebServer server([this](const Request& request) { return serve(request); });
    NoticeBoard board;
    CloudSetup setup = this->setup(server);
    setup.board = &board;
    setup.acknowledge = acknowledge;
    AzureWatcher watcher(setup);
    ASSERT_TRUE(eventually([&] { return board.notice().has_value(); }));
    const int looks = looks_;
    ASSERT_TRUE(eventually([&] { return looks_ > looks + 2; }));
    watcher.machine_may_go();
    watcher.machine_may_go();
    std::vector<std::string> posted;
    for (const Request& request : server.requests()) {
      if (request.method != "POST") continue;
      EXPECT_EQ(request.target, kEvents);
      EXPECT_EQ(request.header("metadata"), "true");
      posted.push_back(request.body);
    }
    ASSERT_THAT(posted, SizeIs(acknowledge ? 1 : 0));
    if (acknowledge) {
      EXPECT_EQ(posted[0], R"({"StartRequests":[{"EventId":"A-1"}]})");
    }
  }
}

TEST_F(AzureWatcherTest, TheDestructorBreaksTheLongFirstQuestionOff) {
  TestWebServer server([this](const Request& request) -> Reply {
    if (request.target == kEvents) return {.then = Then::stall};
    return serve(request);
  });
  const AzureWatcher watcher(setup(server));
  EXPECT_TRUE(eventually([&] { return server.requests().size() >= 2; }));
}

TEST(AzureEvents, AreReadAsAzureWritesThem) {
  const auto kinds = parse_scheduled_events(
      document({event("Preempt", "1", "TRAIN_0"), event("Terminate", "2", "train_0"),
                event("Reboot", "3", "train_0"), event("Redeploy", "4", "train_0"),
                event("Freeze", "5", "train_0")}),
      "train_0");
  ASSERT_TRUE(kinds);
  ASSERT_THAT(*kinds, SizeIs(5));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ((*kinds)[i].kind, i < 4 ? NoticeKind::preempt : NoticeKind::advice);
    EXPECT_EQ((*kinds)[i].id, std::to_string(i + 1));
    EXPECT_EQ((*kinds)[i].deadline_unix_ms, kNotBeforeMs);
  }
  // One that has begun has no deadline any more.
  const auto begun = parse_scheduled_events(document({event("Preempt", "1", "a", "")}), "a");
  ASSERT_TRUE(begun);
  ASSERT_THAT(*begun, SizeIs(1));
  EXPECT_EQ((*begun)[0].deadline_unix_ms, 0);
  for (const char* text : {"", "[]", "{}", "7", R"({"Events": 7})", R"({"events": []})"}) {
    EXPECT_FALSE(parse_scheduled_events(text, "a")) << text;
  }
}

}  // namespace
}  // namespace tern
