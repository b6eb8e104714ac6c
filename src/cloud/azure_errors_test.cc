#include "cloud/azure_errors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/http_date.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = AzureCredentials::Kind;

constexpr int64_t kNow = 1'795'000'000'000;

AzureQuestion question(Kind kind = Kind::shared_key) {
  return {.doing = "write 'x'",
          .container = "az://acc/con",
          .endpoint = "https://acc.blob.core.windows.net",
          .credentials = "the key of account 'acc', from AZURE_STORAGE_KEY",
          .kind = kind,
          .unix_ms = kNow};
}

HttpAnswer answer_of(int status, const std::string& code, int64_t unix_ms = kNow) {
  return {.status = status,
          .headers = {{"x-ms-request-id", "1"},
                      {"x-ms-error-code", code},
                      {"Date", format_http_date(unix_ms)}}};
}

// As Azure sends it, with what must not be repeated.
HttpAnswer with_body(int status, const std::string& code) {
  return {.status = status,
          .headers = {{"x-ms-request-id", "1"}},
          .body = fmt::format("\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>"
                              "{}</Code><Message>Server failed.\nRequestId:1</Message>"
                              "<AuthenticationErrorDetail>The MAC signature found in the HTTP "
                              "request 'SECRET=' is not the same</AuthenticationErrorDetail>"
                              "</Error>",
                              code)};
}

TEST(AzureErrorsTest, TheCodeIsTheHeadersElseTheBodys) {
  EXPECT_EQ(azure_error_code(answer_of(404, "BlobNotFound")), "BlobNotFound");
  EXPECT_EQ(azure_error_code(with_body(404, "BlobNotFound")), "BlobNotFound");
  EXPECT_EQ(azure_error_code({.status = 404, .body = "<html>Not Found</html>"}), "");
  EXPECT_EQ(azure_error_code({.status = 404, .body = "<Error><Code>a b</Code></Error>"}), "");
  EXPECT_EQ(azure_error_code({.status = 404, .body = "<Error><Code>"}), "");
  EXPECT_EQ(azure_error_code({.status = 404, .body = Bytes("\0\xFF<", 3)}), "");
}

TEST(AzureErrorsTest, OnlyAnswersThatMayChangeAreAskedForAgain) {
  EXPECT_EQ(judge_azure(answer_of(200, ""), Kind::shared_key), Verdict::done);
  EXPECT_EQ(judge_azure(answer_of(404, "BlobNotFound"), Kind::shared_key), Verdict::done);
  EXPECT_EQ(judge_azure(answer_of(403, "AuthenticationFailed"), Kind::sas), Verdict::done);
  EXPECT_EQ(judge_azure(answer_of(409, "BlobAlreadyExists"), Kind::sas), Verdict::done);
  EXPECT_EQ(judge_azure(answer_of(503, "ServerBusy"), Kind::sas), Verdict::throttle);
  EXPECT_EQ(judge_azure(answer_of(503, "OperationTimedOut"), Kind::sas), Verdict::retry);
  EXPECT_EQ(judge_azure(answer_of(500, "InternalError"), Kind::sas), Verdict::retry);
  EXPECT_EQ(judge_azure(answer_of(400, "Md5Mismatch"), Kind::sas), Verdict::retry);
  EXPECT_EQ(judge_azure({.status = 502, .body = "<html>"}, Kind::sas), Verdict::retry);
  EXPECT_EQ(judge_azure(answer_of(401, "InvalidAuthenticationInfo"), Kind::managed_identity),
            Verdict::new_tokens);
  EXPECT_EQ(judge_azure(answer_of(401, "NoAuthenticationInformation"), Kind::shared_key),
            Verdict::done);
}

struct Case {
  HttpAnswer answer;
  Code code;
  std::vector<std::string> says;
};

TEST(AzureErrorsTest, EachNamesItsCauseAndWhatToDo) {
  const std::vector<Case> cases = {
      {answer_of(403, "AuthenticationFailed"),
       Code::permission_denied,
       {"the key of account 'acc'", "az storage account keys list"}},
      {answer_of(403, "AuthorizationPermissionMismatch"),
       Code::permission_denied,
       {"may not do this", "Storage Blob Data Contributor"}},
      {answer_of(403, "AuthorizationFailure"), Code::permission_denied, {"network rules"}},
      {answer_of(404, "ContainerNotFound"), Code::not_found, {"`tern store mb az://acc/con`"}},
      {answer_of(404, "BlobNotFound"), Code::not_found, {"`tern store ls az://acc/con`"}},
      {answer_of(404, "SomethingNew"), Code::not_found, {"SomethingNew, status 404"}},
      {answer_of(403, "SomethingNew"), Code::permission_denied, {"SomethingNew", "rights"}},
      {answer_of(400, "SomethingNew"), Code::failed_precondition, {"SomethingNew, status 400"}},
      {answer_of(503, "ServerBusy"), Code::unavailable, {"busy", "fewer requests"}},
      {answer_of(500, "OperationTimedOut"), Code::unavailable, {"took too long"}},
      {answer_of(504, ""), Code::unavailable, {"status 504", "try again"}},
      {answer_of(409, "ContainerBeingDeleted"), Code::unavailable, {"wait a minute"}},
      {answer_of(400, "InvalidBlobOrBlock"), Code::failed_precondition, {"unfinished upload"}},
      {{.status = 200, .body = "<html>It works!</html>"},
       Code::failed_precondition,
       {"not an object store", "https://acc.blob.core.windows.net", "AZURE_STORAGE_BLOB_ENDPOINT"}},
      {{.status = 404, .body = "<html>"}, Code::failed_precondition, {"not an object store"}},
      {{.status = 301}, Code::failed_precondition, {"not an object store"}},
      {{.status = 502, .body = "<html>"}, Code::unavailable, {"status 502"}},
  };
  for (const Case& one : cases) {
    const Error error = azure_error(question(), one.answer);
    EXPECT_EQ(error.code, one.code) << error.to_string();
    EXPECT_THAT(error.message, HasSubstr("could not write 'x' in az://acc/con: "));
    for (const std::string& text : one.says) EXPECT_THAT(error.message, HasSubstr(text));
  }
}

TEST(AzureErrorsTest, AWrongClockIsToldWithHowMuch) {
  const Error behind = azure_error(
      question(), answer_of(403, "AuthenticationFailed", kNow + 3 * 3'600'000 + 5 * 60'000));
  EXPECT_EQ(behind.code, Code::failed_precondition);
  EXPECT_THAT(behind.message, HasSubstr("clock is 3 hours behind the store's"));
  const Error ahead =
      azure_error(question(), answer_of(403, "AuthorizationFailure", kNow - 20 * 60'000));
  EXPECT_THAT(ahead.message, HasSubstr("clock is 20 minutes ahead of the store's"));
  const Error right =
      azure_error(question(), answer_of(403, "AuthenticationFailed", kNow - 14 * 60'000));
  EXPECT_EQ(right.code, Code::permission_denied);
}

TEST(AzureErrorsTest, ASasTokenThatHasEndedIsToldApartFromAWrongOne) {
  AzureQuestion with_sas = question(Kind::sas);
  with_sas.credentials = "a SAS token from AZURE_STORAGE_SAS_TOKEN";
  with_sas.sas_end = format_utc(kNow - 60'000).substr(0, 19) + "Z";
  EXPECT_THAT(azure_error(with_sas, answer_of(403, "AuthenticationFailed")).message,
              HasSubstr("it has ended; make a new one"));
  with_sas.sas_end = format_utc(kNow + 60'000).substr(0, 19) + "Z";
  EXPECT_THAT(azure_error(with_sas, answer_of(403, "AuthenticationFailed")).message,
              AllOf(HasSubstr("is refused"), Not(HasSubstr("it has ended"))));
}

TEST(AzureErrorsTest, NothingOfTheAnswersTextIsRepeated) {
  for (const char* code : {"AuthenticationFailed", "SomethingNew", "InvalidAuthenticationInfo"}) {
    for (const Kind kind : {Kind::shared_key, Kind::sas, Kind::managed_identity}) {
      const Error error = azure_error(question(kind), with_body(403, code));
      EXPECT_EQ(error.code, Code::permission_denied);
      EXPECT_THAT(error.message, Not(HasSubstr("SECRET")));
    }
  }
}

}  // namespace
}  // namespace tern
