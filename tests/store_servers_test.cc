// The servers that other tests stand on come up, and leave nothing behind.
#include "store_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cloud_under_test.h"
#include "core/http_client.h"

namespace tern {
namespace {

class StoreServers : public testing::TestWithParam<ServerKind> {
 protected:
  void SetUp() override {
    if (const auto missing = StoreServer::missing(GetParam()); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    auto made = HttpClient::create({});
    ASSERT_TRUE(made) << made.error().to_string();
    http_ = std::move(*made);
  }

  bool answers(const std::string& url) { return http_->send({.url = url}).has_value(); }

  std::unique_ptr<HttpClient> http_;
};

TEST_P(StoreServers, AServerAnswersAsLongAsItsObjectLives) {
  std::string url;
  {
    const StoreServer server({.kind = GetParam()});
    url = server.url();
    EXPECT_TRUE(answers(url)) << server.said();
  }
  EXPECT_FALSE(answers(url));
}

TEST_P(StoreServers, AServerEndsWithAKilledTest) {
  struct Place {
    int port = 0;
    char folder[200] = "";  // nobody else removes it
  } place;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t test = fork();
  if (test == 0) {
    const StoreServer server({.kind = GetParam()});
    place.port = server.port();
    server.folder().string().copy(place.folder, sizeof place.folder - 1);
    if (write(ends[1], &place, sizeof place) == sizeof place) pause();
    _exit(1);
  }
  ASSERT_EQ(read(ends[0], &place, sizeof place), static_cast<ssize_t>(sizeof place));
  const std::string url = "http://127.0.0.1:" + std::to_string(place.port);
  EXPECT_TRUE(answers(url));
  kill(test, SIGKILL);
  waitpid(test, nullptr, 0);
  EXPECT_TRUE(wait_until([&] { return !answers(url); }));
  std::filesystem::remove_all(place.folder);
  close(ends[0]);
  close(ends[1]);
}

INSTANTIATE_TEST_SUITE_P(All, StoreServers,
                         testing::Values(ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::fake_gcs, ServerKind::strict_gcs,
                                         ServerKind::s3rver, ServerKind::metadata_mock,
                                         ServerKind::strict_metadata),
                         [](const testing::TestParamInfo<ServerKind>& param) {
                           return name_of(param.param, Way::direct);
                         });

}  // namespace
}  // namespace tern
