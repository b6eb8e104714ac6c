#include "cloud/google_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "core/test_web_server.h"

namespace tern {
namespace {

using Kind = GoogleIdentity::Kind;
using Request = TestWebServer::Request;
using Reply = TestWebServer::Reply;
using std::chrono::seconds;
using testing::HasSubstr;

// A token endpoint whose tokens are numbered: token1, token2, ...
class GoogleCredentialsTest : public testing::Test {
 protected:
  Reply answer(const Request& request) {
    if (request.target.ends_with("/email")) {
      return {TestWebServer::answer(200, "vm@project", {"Metadata-Flavor: Google"})};
    }
    if (status_ != 200) return {TestWebServer::answer(status_, "no")};
    const std::string body =
        fmt::format(R"({{"access_token":"token{}","expires_in":{},"token_type":"Bearer"}})",
                    ++given_, life_s_.load());
    return {TestWebServer::answer(200, body, {"Metadata-Flavor: Google"})};
  }

  std::unique_ptr<GoogleCredentials> make(Kind kind) {
    return std::make_unique<GoogleCredentials>(GoogleIdentity{.kind = kind,
                                                              .source = "the test",
                                                              .token_url = server_.url("/token"),
                                                              .client_id = "c",
                                                              .client_secret = "s",
                                                              .refresh_token = "r",
                                                              .metadata_url = server_.url("/vm"),
                                                              .looked = "nothing was set"},
                                               "", clock_);
  }

  std::atomic<int> given_ = 0;
  std::atomic<int> status_ = 200;
  std::atomic<int> life_s_ = 3600;
  SimClock clock_;
  TestWebServer server_{[this](const Request& request) { return answer(request); }};
};

TEST_F(GoogleCredentialsTest, NobodyNeedsNoToken) {
  EXPECT_EQ(make(Kind::anonymous)->token().value(), "");
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(GoogleCredentialsTest, ATokenIsKeptUntilFiveMinutesBeforeItsEnd) {
  const auto credentials = make(Kind::authorized_user);
  EXPECT_EQ(credentials->token().value(), "token1");
  clock_.advance(seconds(3600 - 301));
  EXPECT_EQ(credentials->token().value(), "token1");
  clock_.advance(seconds(2));
  EXPECT_EQ(credentials->token().value(), "token2");
  EXPECT_EQ(server_.requests().front().body,
            "grant_type=refresh_token&client_id=c&client_secret=s&refresh_token=r");
}

TEST_F(GoogleCredentialsTest, ATokenThatIsOldWhenGivenIsUsedForHalfItsTime) {
  life_s_ = 100;
  const auto credentials = make(Kind::metadata);
  EXPECT_EQ(credentials->token().value(), "token1");
  clock_.advance(seconds(49));
  EXPECT_EQ(credentials->token().value(), "token1");
  clock_.advance(seconds(2));
  EXPECT_EQ(credentials->token().value(), "token2");
}

TEST_F(GoogleCredentialsTest, WhileNoNewTokenCanBeHadTheOldOneServes) {
  const auto credentials = make(Kind::authorized_user);
  EXPECT_EQ(credentials->token().value(), "token1");
  status_ = 503;
  clock_.advance(seconds(3400));
  EXPECT_EQ(credentials->token().value(), "token1");
  const size_t asked = server_.requests().size();
  EXPECT_EQ(credentials->token().value(), "token1");
  EXPECT_EQ(server_.requests().size(), asked) << "asked again at once";
  clock_.advance(seconds(201));  // its end
  EXPECT_EQ(credentials->token().error().code, Code::unavailable);
  status_ = 200;
  clock_.advance(seconds(3));
  EXPECT_EQ(credentials->token().value(), "token2");
}

TEST_F(GoogleCredentialsTest, ARefusedTokenIsReplacedOnceForAllWhoHadIt) {
  const auto credentials = make(Kind::authorized_user);
  EXPECT_EQ(credentials->token().value(), "token1");
  EXPECT_EQ(credentials->token("token1").value(), "token2");
  EXPECT_EQ(credentials->token("token1").value(), "token2");
  EXPECT_EQ(server_.requests().size(), 2U);
}

TEST_F(GoogleCredentialsTest, ManyThreadsFetchOneToken) {
  const auto credentials = make(Kind::metadata);
  std::vector<std::string> tokens(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& token : tokens) {
      threads.emplace_back([&] { token = credentials->token().value_or("none"); });
    }
  }
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()), std::set<std::string>{"token1"});
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(GoogleCredentialsTest, TheMetadataServerIsAskedAsItDemands) {
  const auto credentials = make(Kind::metadata);
  EXPECT_TRUE(credentials->token());
  EXPECT_EQ(server_.requests().front().method, "GET");
  EXPECT_EQ(server_.requests().front().header("metadata-flavor"), "Google");
  EXPECT_EQ(credentials->description().value(), "the test (vm@project)");
}

TEST_F(GoogleCredentialsTest, WithoutAnyCredentialsItSaysWhereItLooked) {
  GoogleCredentials credentials({.kind = Kind::metadata,
                                 .source = "the test",
                                 .token_url = "http://127.0.0.1:1/token",
                                 .metadata_url = "http://127.0.0.1:1",
                                 .looked = "nothing was set"},
                                "", clock_);
  const auto token = credentials.token();
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, Code::failed_precondition);
  EXPECT_THAT(token.error().message, HasSubstr("nothing was set"));
  EXPECT_THAT(token.error().message, HasSubstr("GOOGLE_APPLICATION_CREDENTIALS"));
  EXPECT_EQ(credentials.description().error().code, Code::failed_precondition);
}

TEST_F(GoogleCredentialsTest, AFailingEndpointIsTriedAFewTimes) {
  status_ = 500;
  const auto credentials = make(Kind::authorized_user);
  EXPECT_EQ(credentials->token().error().code, Code::unavailable);
  EXPECT_EQ(server_.requests().size(), 6U);
  EXPECT_FALSE(credentials->token());  // by now everybody who waited knows
  EXPECT_EQ(server_.requests().size(), 6U);
}

}  // namespace
}  // namespace tern
