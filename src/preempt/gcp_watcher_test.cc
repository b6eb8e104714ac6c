#include "preempt/gcp_watcher.h"

#include <gmock/gmock.h>

#include <atomic>

#include "preempt/test_watch.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kRoot[] = "/computeMetadata/v1/instance/";
constexpr char kPreempted[] = "/computeMetadata/v1/instance/preempted";
constexpr char kMaintenance[] = "/computeMetadata/v1/instance/maintenance-event";

// The server as Google describes it, but that it never waits for a change.
class GcpWatcherTest : public WatchTest {
 protected:
  static Reply value(const std::string& text, const std::string& etag = "5f2") {
    return good(text, {"Metadata-Flavor: Google", "ETag: " + etag});
  }
  Reply serve(const Request& request) {
    if (request.header("metadata-flavor") != "Google") return status(403);
    if (request.target.starts_with(kPreempted)) {
      ++preempted_looks_;
      return preempted_ ? preempted_() : value("FALSE");
    }
    if (request.target.starts_with(kMaintenance)) {
      ++maintenance_looks_;
      return maintenance_ ? maintenance_() : value("NONE");
    }
    return status(404);
  }

  // Apart, as each key has a thread of its own.
  std::atomic<int> preempted_looks_ = 0;
  std::atomic<int> maintenance_looks_ = 0;
  std::function<Reply()> preempted_;
  std::function<Reply()> maintenance_;
};

TEST_F(GcpWatcherTest, APreemptionIsOneNoticeWithItsDeadline) {
  preempted_ = [this] { return preempted_looks_ < 10 ? value("FALSE", "1") : value("TRUE", "2"); };
  TestWebServer server([this](const Request& request) { return serve(request); });
  const GcpWatcher watcher(setup(server));
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  const int looks = preempted_looks_;
  ASSERT_TRUE(eventually([&] { return preempted_looks_ > looks + 5; }));
  ASSERT_THAT(board_.all(), SizeIs(1));
  const Notice notice = *board_.notice();
  EXPECT_EQ(notice.kind, NoticeKind::preempt);
  EXPECT_EQ(notice.source, "GCP preemption");
  EXPECT_EQ(notice.deadline_unix_ms, notice.unix_ms + 30'000);
  EXPECT_EQ(notice.id, notice_id({"GCP", "preempted", "TRUE", "2"}));
}

TEST_F(GcpWatcherTest, TheNextQuestionWaitsForAnotherEtagThanTheLast) {
  TestWebServer server([this](const Request& request) { return serve(request); });
  {
    const GcpWatcher watcher(setup(server));
    ASSERT_TRUE(eventually([&] { return preempted_looks_ > 3 && maintenance_looks_ > 3; }));
  }
  const std::string waits = "?wait_for_change=true&timeout_sec=20&last_etag=5f2";
  std::vector<std::string> targets;
  for (const Request& request : server.requests()) targets.push_back(request.target);
  EXPECT_THAT(targets, Contains(kPreempted).Times(1));
  EXPECT_THAT(targets, Contains(kMaintenance).Times(1));
  EXPECT_THAT(targets, Contains(kPreempted + waits));
  EXPECT_THAT(targets, Contains(kMaintenance + waits));
}

TEST_F(GcpWatcherTest, AMigrationIsAdviceEachTimeAndATerminationIsANotice) {
  std::atomic<int> event = 0;
  maintenance_ = [&] {
    const int now = event;
    const char* const values[] = {"NONE", "MIGRATE_ON_HOST_MAINTENANCE", "NONE",
                                  "MIGRATE_ON_HOST_MAINTENANCE", "TERMINATE_ON_HOST_MAINTENANCE"};
    return value(values[now], std::to_string(now));
  };
  TestWebServer server([this](const Request& request) { return serve(request); });
  const GcpWatcher watcher(setup(server));
  for (const size_t told : {0U, 1U, 1U, 2U, 3U}) {
    const int looks = maintenance_looks_;
    ASSERT_TRUE(eventually([&] { return maintenance_looks_ > looks + 3; }));
    EXPECT_THAT(board_.all(), SizeIs(told));
    if (event < 4) ++event;
  }
  const std::vector<Notice> notices = board_.all();
  ASSERT_THAT(notices, SizeIs(3));
  EXPECT_EQ(notices[0].kind, NoticeKind::advice);
  EXPECT_EQ(notices[0].source, "GCP host maintenance (migrate)");
  EXPECT_EQ(notices[1].kind, NoticeKind::advice);
  EXPECT_EQ(notices[2].kind, NoticeKind::preempt);
  EXPECT_EQ(notices[2].deadline_unix_ms, notices[2].unix_ms + 60'000);
}

TEST_F(GcpWatcherTest, GarbageIsNoNotice) {
  TestWebServer elsewhere([](const Request&) { return value("TRUE"); });
  std::vector<Reply> replies = garbage("TRUE", elsewhere.url());
  replies.push_back(good("TRUE", {"ETag: 1"}));                            // not signed
  replies.push_back(good("TRUE", {"ETag: 1", "Metadata-Flavor: Other"}));  // by somebody else
  replies.push_back(good("TRUE", {"Metadata-Flavor: Google"}));
  replies.push_back(good("TRUE", {"Metadata-Flavor: Google", "ETag: " + std::string(1000, 'a')}));
  replies.push_back(value("TRUELY"));
  replies.push_back(value("true"));
  for (const Reply& reply : replies) {
    for (const char* where : {kPreempted, kMaintenance}) {
      SCOPED_TRACE(fmt::format("{} {}", where, reply.bytes.substr(0, 60)));
      std::atomic<int> garbled = 0;
      TestWebServer server([&](const Request& request) {
        if (!request.target.starts_with(where)) return serve(request);
        ++garbled;
        return reply;
      });
      CloudSetup setup = this->setup(server);
      setup.limit = setup.silence = Milliseconds(50);
      const GcpWatcher watcher(setup);
      ASSERT_TRUE(eventually([&] { return garbled >= 3; }));
    }
  }
  EXPECT_THAT(board_.all(), SizeIs(0));
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST_F(GcpWatcherTest, AfterAFailureItAsksWithoutWaiting) {
  std::atomic<int> asked = 0;
  TestWebServer server([&](const Request& request) {
    if (!request.target.starts_with(kPreempted)) return serve(request);
    return ++asked == 3 ? status(503) : value("FALSE");
  });
  {
    const GcpWatcher watcher(setup(server));
    ASSERT_TRUE(eventually([&] { return asked >= 5; }));
  }
  std::vector<std::string> targets;
  for (const Request& request : server.requests()) {
    if (request.target.starts_with(kPreempted)) targets.push_back(request.target);
  }
  EXPECT_EQ(targets[3], kPreempted);
  EXPECT_THAT(targets[4], HasSubstr("wait_for_change"));
  EXPECT_EQ(logged(), "");
}

TEST_F(GcpWatcherTest, TheDestructorBreaksALongPollOff) {
  TestWebServer server([this](const Request& request) -> Reply {
    if (request.target.find("wait_for_change") != std::string::npos) return {.then = Then::stall};
    return serve(request);
  });
  const GcpWatcher watcher(setup(server));
  EXPECT_TRUE(eventually([&] { return server.requests().size() >= 4; }));
}

TEST_F(GcpWatcherTest, AnEtagCannotBecomeAnotherQuestion) {
  TestWebServer server([](const Request&) { return value("n1", "a&b=c d"); });
  MetadataClient client(server.url(""));
  const auto first = ask_gcp(client, "x", "", {}, Milliseconds(10'000), {});
  ASSERT_TRUE(first);
  ASSERT_TRUE(ask_gcp(client, "x", first->etag, {}, Milliseconds(10'000), {}));
  EXPECT_THAT(server.requests()[1].target,
              AllOf(HasSubstr(std::string(kRoot) + "x?"), HasSubstr("last_etag=a%26b%3Dc%20d")));
}

}  // namespace
}  // namespace tern
