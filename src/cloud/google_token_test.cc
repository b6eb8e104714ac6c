#include "cloud/google_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud/test_google_key.h"
#include "core/http_date.h"

namespace tern {
namespace {

using Kind = GoogleIdentity::Kind;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'700'000'000'000;

GoogleIdentity identity_of(Kind kind) {
  return {.kind = kind,
          .source = "the test's credentials",
          .token_url = "https://tokens.example/token",
          .email = "e@x",
          .private_key = kRfc7515Key,
          .client_id = "id&1",
          .client_secret = "TOPSECRET",
          .refresh_token = "1//r+t",
          .looked = "nothing was set"};
}

HttpAnswer answer_of(int status, std::string body, std::vector<HttpHeader> headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = std::move(body)};
}

Error error_of(Kind kind, const HttpAnswer& answer) {
  const auto token = read_token_answer(answer, identity_of(kind), kNow);
  EXPECT_FALSE(token);
  if (token) return Error{};
  EXPECT_THAT(token.error().message, Not(HasSubstr("TOPSECRET")));
  return token.error();
}

TEST(GoogleToken, APersonsLoginIsSentAsAForm) {
  const auto made = make_token_request(identity_of(Kind::authorized_user), kNow);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->request.method, "POST");
  EXPECT_EQ(made->form,
            "grant_type=refresh_token&client_id=id%261&client_secret=TOPSECRET"
            "&refresh_token=1%2F%2Fr%2Bt");
}

TEST(GoogleToken, AServiceAccountSendsASignedStatement) {
  const auto made = make_token_request(identity_of(Kind::service_account), kNow);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->form, testing::StartsWith("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type"
                                              "%3Ajwt-bearer&assertion=eyJ"));
  GoogleIdentity broken = identity_of(Kind::service_account);
  broken.private_key = "TOPSECRET";
  const auto refused = make_token_request(broken, kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::corrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("is no RSA key"));
}

TEST(GoogleToken, AGoodAnswerIsAToken) {
  const auto token = read_token_answer(
      answer_of(200, R"({"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"})"),
      identity_of(Kind::service_account), kNow);
  ASSERT_TRUE(token) << token.error().to_string();
  EXPECT_EQ(token->text, "ya29.x");
  EXPECT_EQ(token->life, std::chrono::seconds(3599));
}

TEST(GoogleToken, TheMetadataServerMustSayThatItIsGoogles) {
  const std::string body = R"({"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"})";
  EXPECT_TRUE(read_token_answer(answer_of(200, body, {{"metadata-flavor", "Google"}}),
                                identity_of(Kind::metadata), kNow));
  EXPECT_EQ(error_of(Kind::metadata, answer_of(200, body)).code, Code::failed_precondition);
  const Error none = error_of(Kind::metadata, answer_of(404, "Not Found"));
  EXPECT_EQ(none.code, Code::failed_precondition);
  EXPECT_THAT(none.message, HasSubstr("no service account"));
  EXPECT_THAT(none.message, HasSubstr("nothing was set"));
}

TEST(GoogleToken, GarbageIsNoToken) {
  for (const std::string body :
       {"", "<html>", "null", "[]", "{}", R"({"access_token":7,"expires_in":10})",
        R"({"access_token":"a b","expires_in":10})",
        R"({"access_token":"a\r\nX: y","expires_in":1})", R"({"access_token":"","expires_in":10})",
        R"({"access_token":"a"})", R"({"access_token":"a","expires_in":-1})",
        R"({"access_token":"a","expires_in":"10"})",
        R"({"access_token":"a","expires_in":1e300})"}) {
    const Error error = error_of(Kind::service_account, answer_of(200, body));
    EXPECT_EQ(error.code, Code::failed_precondition) << body;
    EXPECT_THAT(error.message, HasSubstr("token_uri"));
  }
  EXPECT_EQ(error_of(Kind::authorized_user, answer_of(404, "<html>")).code,
            Code::failed_precondition);
  EXPECT_EQ(error_of(Kind::authorized_user, answer_of(503, "busy")).code, Code::unavailable);
}

TEST(GoogleToken, AWrongClockIsNamed) {
  const std::string body =
      R"({"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived )"
      R"(token (60 minutes) and in a reasonable timeframe. Check your iat and exp values."})";
  const Error ahead = error_of(
      Kind::service_account, answer_of(400, body, {{"Date", format_http_date(kNow - 3'600'000)}}));
  EXPECT_EQ(ahead.code, Code::failed_precondition);
  EXPECT_THAT(ahead.message, HasSubstr("clock is 60 minutes ahead of Google's"));
  const Error behind = error_of(Kind::service_account,
                                answer_of(400, body, {{"Date", format_http_date(kNow + 600'000)}}));
  EXPECT_THAT(behind.message, HasSubstr("clock is 10 minutes behind Google's"));
  const Error unknown = error_of(Kind::service_account, answer_of(400, body));
  EXPECT_THAT(unknown.message, HasSubstr("clock may be wrong"));
}

TEST(GoogleToken, ADeletedKeyAndAnEndedLoginSayWhatToDo) {
  const Error key = error_of(
      Kind::service_account,
      answer_of(400, R"({"error":"invalid_grant","error_description":"Invalid JWT Signature."})"));
  EXPECT_EQ(key.code, Code::permission_denied);
  EXPECT_THAT(key.message, HasSubstr("make a new one"));
  const Error login = error_of(
      Kind::authorized_user,
      answer_of(400, R"({"error":"invalid_grant","error_description":"expired or revoked."})"));
  EXPECT_EQ(login.code, Code::permission_denied);
  EXPECT_THAT(login.message, HasSubstr("gcloud auth application-default login"));
  const Error client =
      error_of(Kind::authorized_user, answer_of(401, R"({"error":"invalid_client"})"));
  EXPECT_EQ(client.code, Code::permission_denied);
}

}  // namespace
}  // namespace tern
