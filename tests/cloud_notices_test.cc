// Notices of clouds: the watchers against the EC2 metadata mock and against servers as strict as
// Google's and Azure's documents, and a person's run that is told by each of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/http_client.h"
#include "core/iso_time.h"
#include "core/log.h"
#include "fault_proxy.h"
#include "preempt/cloud_watch.h"
#include "store_servers.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kNever[] = "1000000";  // in seconds: after the test

// Skips where the mock is not installed; the strict server is always there.
class CloudNotices : public testing::Test {
 protected:
  CloudNotices() : http_(std::move(HttpClient::create({})).value()) {}

  StoreServer& serve(ServerKind kind, const std::vector<std::string>& arguments = {}) {
    server_ =
        std::make_unique<StoreServer>(StoreServer::Start{.kind = kind, .arguments = arguments});
    return *server_;
  }
  // See strict_metadata.py.
  Json order(const std::string& what) {
    const auto answer = http_->send({.method = "POST", .url = server_->url() + "/_strict/" + what});
    EXPECT_TRUE(answer && answer->status == 200) << what;
    return answer ? Json::parse(answer->body, nullptr, false) : Json();
  }
  // Nothing that we asked was against the documents.
  void expect_nothing_was_refused() { EXPECT_THAT(order("seen")["refused"], IsEmpty()); }

  std::unique_ptr<CloudWatch> watch(const std::string& cloud, bool acknowledge = false) {
    return std::make_unique<CloudWatch>(
        CloudWatch::Setup{.options = {.cloud = cloud, .acknowledge = acknowledge},
                          .variable = server_->surroundings().variable,
                          .board = &board_,
                          .clock = &clock_,
                          .log = &log_});
  }
  bool has_notices(size_t count) {
    return wait_until([&] { return board_.all().size() >= count; });
  }

  SystemClock clock_;
  Log log_{clock_, Level::error};
  NoticeBoard board_;
  std::unique_ptr<HttpClient> http_;
  std::unique_ptr<StoreServer> server_;
};

#define SKIP_WITHOUT_THE_MOCK()                                                       \
  if (const auto why = StoreServer::missing(ServerKind::metadata_mock); !why.empty()) \
  GTEST_SKIP() << why

TEST_F(CloudNotices, AwsTellsOfAnInterruption) {
  SKIP_WITHOUT_THE_MOCK();
  // After a look or two that find nothing.
  serve(ServerKind::metadata_mock, {"spot", "--action", "stop", "--time", "2030-01-02T03:04:05Z",
                                    "--mock-delay-sec", "2", "--rebalance-delay-sec", kNever});
  const auto watcher = watch("aws");
  ASSERT_TRUE(has_notices(1)) << server_->said();
  const Notice notice = board_.all()[0];
  EXPECT_EQ(notice.kind, NoticeKind::preempt);
  EXPECT_EQ(notice.source, "AWS spot interruption (stop)");
  EXPECT_EQ(notice.deadline_unix_ms, *parse_iso_time("2030-01-02T03:04:05Z"));
  EXPECT_EQ(notice.id.size(), 16U);
}

TEST_F(CloudNotices, AwsTellsOfARebalanceRecommendationFirst) {
  SKIP_WITHOUT_THE_MOCK();
  serve(ServerKind::metadata_mock, {"spot", "--mock-delay-sec", "3", "--rebalance-delay-sec", "0"});
  const auto watcher = watch("aws");
  ASSERT_TRUE(has_notices(2)) << server_->said();
  const std::vector<Notice> notices = board_.all();
  EXPECT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices[0].kind, NoticeKind::advice);
  EXPECT_EQ(notices[0].source, "AWS rebalance recommendation");
  EXPECT_EQ(notices[1].kind, NoticeKind::preempt);
  EXPECT_EQ(notices[1].source, "AWS spot interruption (terminate)");
  // The mock says "in two minutes" whenever it is asked.
  EXPECT_NEAR(static_cast<double>(notices[1].deadline_unix_ms - notices[1].unix_ms), 120e3, 5e3);
}

TEST_F(CloudNotices, GoogleTellsOfAPreemption) {
  serve(ServerKind::strict_metadata);
  const auto watcher = watch("gcp");
  EXPECT_EQ(watcher->instance_type(), "n1-standard-4");
  order("gcp?key=preempted&value=TRUE");
  ASSERT_TRUE(has_notices(1));
  order("gcp?key=maintenance-event&value=MIGRATE_ON_HOST_MAINTENANCE");
  ASSERT_TRUE(has_notices(2));
  const std::vector<Notice> notices = board_.all();
  EXPECT_EQ(notices[0].kind, NoticeKind::preempt);
  EXPECT_EQ(notices[0].source, "GCP preemption");
  EXPECT_EQ(notices[0].deadline_unix_ms, notices[0].unix_ms + 30'000);
  EXPECT_EQ(notices[0].id, notice_id({"GCP", "preempted", "TRUE", "0000000000000002"}));
  EXPECT_EQ(notices[1].kind, NoticeKind::advice);
  expect_nothing_was_refused();
}

TEST_F(CloudNotices, AzureTellsOfAnEventAndIsToldWhenTheMachineMayGo) {
  serve(ServerKind::strict_metadata);
  order("azure?id=X-1&type=Preempt&resource=train_1&in=30");
  const auto watcher = watch("azure", /*acknowledge=*/true);
  EXPECT_EQ(watcher->instance_type(), "Standard_NC6s_v3");
  order("azure?id=A-0&type=Freeze&resource=train_0&in=900");
  ASSERT_TRUE(has_notices(1));
  order("azure?id=A-1&type=Preempt&resource=train_0&in=30");
  ASSERT_TRUE(has_notices(2));
  order("azure?id=X-2&type=Terminate&resource=train_1&in=300");
  watcher->machine_may_go();
  EXPECT_EQ(order("seen")["approved"], Json({"A-1"}));
  const std::vector<Notice> notices = board_.all();
  EXPECT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices[0].kind, NoticeKind::advice);
  EXPECT_EQ(notices[0].id, "A-0");
  EXPECT_EQ(notices[1].kind, NoticeKind::preempt);
  EXPECT_EQ(notices[1].id, "A-1");
  EXPECT_EQ(notices[1].source, "Azure scheduled event (Preempt)");
  EXPECT_NEAR(static_cast<double>(notices[1].deadline_unix_ms - notices[1].unix_ms), 30e3, 5e3);
  expect_nothing_was_refused();
}

// A person's run on such a machine. Proxies that lead nowhere are in the way of everything else.
class CloudNoticesStories : public CloudNotices {
 protected:
  Process::Start train(const std::string& cloud, std::vector<std::string> more = {}) {
    std::vector<std::string> words = WorkFolder::train(
        "run", {"--set", "train.epochs=100000", "--set", "preempt.cloud=" + cloud});
    words.insert(words.end(), more.begin(), more.end());
    Process::Start start = place_.start(words);
    start.environment = server_->variables();
    for (const char* name : {"http_proxy", "all_proxy"}) {
      start.environment[name] = "http://127.0.0.1:1";
    }
    return start;
  }
  bool is_in_the_middle() {
    return wait_until([&] { return place_.steps_recorded("run") >= 100; });
  }
  void expect_left(const Finished& finished, const std::string& source) {
    EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
    const Json report = place_.report("run");
    EXPECT_EQ(report["status"], "preempted");
    EXPECT_EQ(report["steps_lost"], 0);
    const auto notices = place_.ledger("run", "notice");
    ASSERT_FALSE(notices.empty());
    EXPECT_EQ(notices.back()["notice"], "preempt");
    EXPECT_EQ(notices.back()["source"], source);
    EXPECT_GT(notices.back()["deadline_ms"].get<int64_t>(), clock_.unix_ms());
    EXPECT_THAT(finished.err, HasSubstr("this machine will go in "));
    // It goes on where it was.
    const Finished resumed = place_.tern(WorkFolder::train(
        "run", {"--set", "train.epochs=100000", "--steps",
                std::to_string(report["step"].get<int64_t>() + 3), "--set", "preempt.cloud=none"}));
    EXPECT_EQ(resumed.exit_code, kExitDone) << resumed.err;
    EXPECT_EQ(place_.ledger("run", "resume")[0]["steps_lost"], 0);
  }

  WorkFolder place_;
};

TEST_F(CloudNoticesStories, ARunOnAwsSavesOnAdviceAndLeavesOnTheInterruption) {
  SKIP_WITHOUT_THE_MOCK();
  serve(ServerKind::metadata_mock, {"spot", "--mock-delay-sec", kNever});
  FaultProxy world(scripted({}));
  world.lead_to(server_->port());
  Process::Start start = train("aws");
  start.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] =
      fmt::format("http://127.0.0.1:{}", world.port());
  Process process(start);
  ASSERT_TRUE(wait_until([&] { return !place_.ledger("run", "notice").empty(); }))
      << process.err_so_far();
  ASSERT_TRUE(is_in_the_middle());
  // Another service, which knows none of the first one's tokens.
  const StoreServer later(
      {.kind = ServerKind::metadata_mock, .arguments = {"spot", "--rebalance-delay-sec", kNever}});
  world.lead_to(later.port());
  expect_left(process.wait(), "AWS spot interruption (terminate)");
  const auto notices = place_.ledger("run", "notice");
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices[0]["notice"], "advice");
}

TEST_F(CloudNoticesStories, ARunOnGoogleLeavesWhenItIsPreempted) {
  serve(ServerKind::strict_metadata);
  Process process(train("gcp"));
  ASSERT_TRUE(is_in_the_middle()) << process.err_so_far();
  order("gcp?key=preempted&value=TRUE");
  expect_left(process.wait(), "GCP preemption");
  EXPECT_EQ(place_.ledger("run", "start")[0]["machine"]["instance_type"], "n1-standard-4");
  expect_nothing_was_refused();
}

TEST_F(CloudNoticesStories, ARunOnAzureLeavesAndLetsTheMachineGo) {
  serve(ServerKind::strict_metadata);
  Process process(train("azure", {"--set", "preempt.acknowledge=true"}));
  ASSERT_TRUE(is_in_the_middle()) << process.err_so_far();
  order("azure?id=A-1&type=Preempt&resource=train_0&in=60");
  expect_left(process.wait(), "Azure scheduled event (Preempt)");
  EXPECT_EQ(place_.ledger("run", "notice")[0]["id"], "A-1");
  EXPECT_EQ(order("seen")["approved"], Json({"A-1"}));
  expect_nothing_was_refused();
}

TEST_F(CloudNoticesStories, AServiceThatIsNotThereCostsALogLineAndNothingElse) {
  serve(ServerKind::strict_metadata);
  Process::Start start = train("aws");
  // Nobody listens there.
  start.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1";
  start.command.insert(start.command.end(), {"--steps", "20"});
  const Finished finished = run_to_end(start);
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_EQ(place_.report("run")["step"], 20);
}

}  // namespace
}  // namespace tern
