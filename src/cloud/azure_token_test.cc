#include "cloud/azure_token.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "cloud/azure_credentials.h"
#include "core/test_http_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Answer = TestHttpServer::Answer;
using Request = TestHttpServer::Request;
using Variables = std::map<std::string, std::string>;

CloudSurroundings with(const Variables& variables) {
  return {.variable = [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  }};
}

std::string token_json(const std::string& token, int64_t lifetime_s) {
  return fmt::format(
      R"({{"access_token":"{}","expires_in":"{}","expires_on":"1","token_type":"Bearer"}})", token,
      lifetime_s);
}

TEST(AzureTokenTest, SourcesAreTakenInTheirOrder) {
  Variables all = {{"IDENTITY_ENDPOINT", "http://127.0.0.1:8081/msi/token"},
                   {"IDENTITY_HEADER", "h"},
                   {"MSI_ENDPOINT", "http://127.0.0.1:9/ml"},
                   {"MSI_SECRET", "s"},
                   {"AZURE_CLIENT_ID", "c/1"}};
  const TokenSource app = find_token_source(with(all));
  EXPECT_EQ(app.url,
            "http://127.0.0.1:8081/msi/token?api-version=2019-08-01&resource=https%3A%2F%2F"
            "storage.azure.com%2F&client_id=c%2F1");
  EXPECT_EQ(app.header, (HttpHeader{"X-IDENTITY-HEADER", "h"}));
  all.erase("IDENTITY_HEADER");
  const TokenSource ml = find_token_source(with(all));
  EXPECT_EQ(ml.url,
            "http://127.0.0.1:9/ml?api-version=2017-09-01&resource=https%3A%2F%2F"
            "storage.azure.com%2F&clientid=c%2F1");
  EXPECT_EQ(ml.header, (HttpHeader{"secret", "s"}));
  const TokenSource machine = find_token_source(with({}));
  EXPECT_EQ(machine.url,
            "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
            "https%3A%2F%2Fstorage.azure.com%2F");
  EXPECT_EQ(machine.header, (HttpHeader{"Metadata", "true"}));
}

TEST(AzureTokenTest, AnAnswerIsReadInAllItsForms) {
  constexpr int64_t kNow = 1'795'000'000'000;
  const auto in = parse_token_answer(token_json("t", 86'399), kNow).value();
  EXPECT_EQ(in.text, "t");
  EXPECT_EQ(in.lifetime, std::chrono::seconds(86'399));
  EXPECT_EQ(parse_token_answer(R"({"access_token":"t","expires_on":"1795000600"})", kNow)
                .value()
                .lifetime,
            std::chrono::seconds(600));
  EXPECT_EQ(
      parse_token_answer(R"({"access_token":"t","expires_on":1795000600})", kNow).value().lifetime,
      std::chrono::seconds(600));
  EXPECT_EQ(parse_token_answer(R"({"access_token":"t","expires_on":17})", kNow).value().lifetime,
            std::chrono::seconds(0));
  EXPECT_EQ(parse_token_answer(R"({"access_token":"t","expires_in":9e18})", kNow).has_value(),
            false);
  for (const char* garbage :
       {"", "<html>", "[]", "{}", "null", R"({"access_token":1,"expires_in":1})",
        R"({"access_token":"t"})", R"({"access_token":"","expires_in":1})",
        R"({"access_token":"a\r\nHost: b","expires_in":1})",
        R"({"access_token":"t","expires_on":"soon"})", "{\"access_token\":\"t\xFF\"}"}) {
    const auto parsed = parse_token_answer(garbage, kNow);
    ASSERT_FALSE(parsed) << garbage;
    EXPECT_EQ(parsed.error().code, Code::corrupt);
  }
}

class ManagedIdentityTest : public testing::Test {
 protected:
  // The service answers "token1", "token2", ...; nothing where `answer_` says otherwise.
  Answer answer(const Request& request) {
    EXPECT_EQ(request.header("metadata"), "true");
    const int now = ++asked_;
    if (answer_) return *answer_;
    return {.body = token_json(fmt::format("token{}", now), lifetime_s_)};
  }
  Variables variables() { return {{"AZURE_POD_IDENTITY_AUTHORITY_HOST", server_.url("")}}; }

  std::atomic<int> asked_ = 0;
  int64_t lifetime_s_ = 3600;
  std::optional<Answer> answer_;
  SimClock clock_;
  TestHttpServer server_{[this](const Request& request) { return answer(request); }};
  ManagedIdentity identity_{find_token_source(with(variables())), clock_};
};

TEST_F(ManagedIdentityTest, ATokenIsAskedForOnceAndRenewedFiveMinutesBeforeItsEnd) {
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1");
  clock_.advance(std::chrono::minutes(54));
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1");
  clock_.advance(std::chrono::minutes(2));
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token2");
  EXPECT_EQ(asked_, 2);
}

TEST_F(ManagedIdentityTest, AnOldTokenIsUsedWhileNoNewOneIsToBeHad) {
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1");
  answer_ = Answer{.status = 500};
  clock_.advance(std::chrono::minutes(56));
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1");
  clock_.advance(std::chrono::minutes(5));
  const auto gone = identity_.token(/*refresh=*/false);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::unavailable);
}

TEST_F(ManagedIdentityTest, ARefusedTokenIsReplacedButNotAgainAtOnce) {
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1");
  EXPECT_EQ(identity_.token(/*refresh=*/true).value(), "token1");  // it is new
  clock_.advance(std::chrono::minutes(1));
  EXPECT_EQ(identity_.token(/*refresh=*/true).value(), "token2");
  EXPECT_EQ(identity_.token(/*refresh=*/true).value(), "token2");
}

TEST_F(ManagedIdentityTest, ManyThreadsAskOnce) {
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back(
          [&] { EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1"); });
    }
  }
  EXPECT_EQ(asked_, 1);
}

TEST_F(ManagedIdentityTest, ABusyServiceIsAskedThreeTimes) {
  answer_ = Answer{.status = 429};
  const auto token = identity_.token(/*refresh=*/false);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, Code::unavailable);
  EXPECT_EQ(asked_, 3);
}

TEST_F(ManagedIdentityTest, AServiceThatIsThereAndDoesNotAnswerNowIsUnavailable) {
  EXPECT_EQ(identity_.token(/*refresh=*/false).value(), "token1");
  asked_ = 0;
  answer_ = Answer{.body = "cut", .cut_after = 1};
  clock_.advance(std::chrono::minutes(61));
  const auto token = identity_.token(/*refresh=*/false);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, Code::unavailable);
  EXPECT_GE(asked_, 3);
  // Soon asked again, but not by each of many.
  asked_ = 0;
  answer_.reset();
  EXPECT_FALSE(identity_.token(/*refresh=*/false));
  EXPECT_EQ(asked_, 0);
  clock_.advance(std::chrono::seconds(3));
  EXPECT_TRUE(identity_.token(/*refresh=*/false));
}

TEST_F(ManagedIdentityTest, AMachineWithoutAnIdentityIsToldWhatToDo) {
  answer_ = Answer{.status = 400, .body = R"({"error":"invalid_request"})"};
  const auto token = identity_.token(/*refresh=*/false);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, Code::permission_denied);
  EXPECT_THAT(token.error().message, HasSubstr("az vm identity assign"));
}

TEST_F(ManagedIdentityTest, ATokenBecomesAHeader) {
  Variables all = variables();
  all["AZURE_STORAGE_BLOB_ENDPOINT"] = "http://127.0.0.1:1/acc";
  const auto found = AzureCredentials::find("acc", with(all), clock_).value();
  HttpRequest request;
  ASSERT_TRUE(found->authorize(request, /*refresh=*/false));
  ASSERT_EQ(request.headers.size(), 1u);
  EXPECT_EQ(request.headers[0], (HttpHeader{"Authorization", "Bearer token1"}));
}

TEST(AzureTokenAloneTest, WithoutAnyCredentialsAllPlacesAreNamed) {
  SimClock clock;
  std::string nobody;
  {
    TestHttpServer gone([](const Request&) { return Answer{}; });
    nobody = gone.url("");
  }
  auto found =
      AzureCredentials::find(
          "acc",
          with({{"AZURE_POD_IDENTITY_AUTHORITY_HOST", nobody},
                {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=c2VjcmV0"}}),
          clock)
          .value();
  HttpRequest request;
  const Status sent = found->authorize(request, /*refresh=*/false);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::failed_precondition);
  EXPECT_THAT(sent.error().message,
              AllOf(HasSubstr("AZURE_STORAGE_CONNECTION_STRING (is for account 'other')"),
                    HasSubstr("AZURE_STORAGE_KEY (not set)"),
                    HasSubstr("AZURE_STORAGE_SAS_TOKEN (not set)"), HasSubstr(nobody),
                    Not(HasSubstr("c2VjcmV0"))));
}

}  // namespace
}  // namespace tern
