#include "cloud/s3_error.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/http_date.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'700'000'000'000;

HttpAnswer no(int status, const std::string& code, const std::string& message = "Said so.") {
  return {.status = status,
          .headers = {{"Date", format_http_date(kNow)}},
          .body = fmt::format("<?xml version=\"1.0\"?>\n<Error><Code>{}</Code><Message>{}</Message>"
                              "<RequestId>1</RequestId></Error>",
                              code, message)};
}

Error error_of(const HttpAnswer& answer, const S3Deed& deed = kS3Read,
               const std::string& name = "a/b") {
  const S3Place place{.bucket = "runs"};
  return s3_error(answer, {deed, name, "access key ending in MPLE of the test", kNow}, place);
}

TEST(S3Error, EachCauseIsNamedWithTheNextStep) {
  struct Case {
    int status;
    std::string code;
    Code expected;
    std::string cause;
    std::string next;
  };
  for (const Case& c : std::vector<Case>{
           {403, "InvalidAccessKeyId", Code::permission_denied, "does not know this access key",
            "check AWS_ACCESS_KEY_ID"},
           {404, "XAdminUserNotFound", Code::permission_denied, "does not know this access key",
            "check AWS_ACCESS_KEY_ID"},
           {404, "SomethingElse", Code::failed_precondition, "refuses to read", "check"},
           {403, "SignatureDoesNotMatch", Code::permission_denied, "the secret key is not the one",
            "check AWS_SECRET_ACCESS_KEY"},
           {400, "ExpiredToken", Code::permission_denied, "session token has expired", "log in"},
           {400, "InvalidToken", Code::permission_denied, "session token wrong",
            "check AWS_SESSION_TOKEN"},
           {403, "AccessDenied", Code::permission_denied, "may not read s3://runs/a/b",
            "s3:GetObject"},
           {404, "NoSuchBucket", Code::not_found, "no bucket 'runs'", "tern store mb s3://runs"},
           {404, "NoSuchKey", Code::not_found, "no object s3://runs/a/b",
            "tern store ls s3://runs"},
           {301, "PermanentRedirect", Code::failed_precondition, "is not at AWS", "AWS_REGION"},
           {503, "SlowDown", Code::unavailable, "asks for fewer requests", "later"},
           {500, "InternalError", Code::unavailable, "cannot read", "try again later"},
           {400, "EntityTooLarge", Code::invalid, "larger than the store takes", "keep less"},
           {507, "XMinioStorageFull", Code::exhausted, "no more room", "remove"},
           {507, "InsufficientStorage", Code::exhausted, "no more room", "remove"},
           {400, "BadDigest", Code::corrupt, "arrived changed", "check the network"},
           {501, "NotImplemented", Code::failed_precondition, "does not have", "another store"},
           {400, "InvalidRequest", Code::failed_precondition, "refuses", "check"},
           {400, "InvalidLocationConstraint", Code::failed_precondition, "has no region",
            "AWS_REGION"},
           {409, "BucketAlreadyExists", Code::already_exists, "taken", "choose another"},
       }) {
    const Error error = error_of(no(c.status, c.code));
    EXPECT_EQ(error.code, c.expected) << c.code;
    EXPECT_THAT(error.message, AllOf(HasSubstr(c.cause), HasSubstr(c.next))) << c.code;
  }
}

TEST(S3Error, TheVerbAndItsPermissionAreNamed) {
  const HttpAnswer denied = no(403, "AccessDenied", "Access Denied");
  EXPECT_THAT(error_of(denied, kS3Write).message,
              AllOf(HasSubstr("may not write s3://runs/a/b"), HasSubstr("s3:PutObject")));
  EXPECT_THAT(error_of(denied, kS3List, "").message,
              AllOf(HasSubstr("may not list s3://runs ("), HasSubstr("s3:ListBucket"),
                    HasSubstr("of the test"), HasSubstr("on bucket 'runs'")));
  EXPECT_THAT(error_of(denied, kS3Remove).message, HasSubstr("s3:DeleteObject"));
}

TEST(S3Error, AWrongClockIsToldWithByHowMuch) {
  HttpAnswer skewed = no(403, "RequestTimeTooSkewed");
  skewed.headers = {{"Date", format_http_date(kNow - 3'725'000)}};
  const Error ahead = error_of(skewed);
  EXPECT_EQ(ahead.code, Code::failed_precondition);
  EXPECT_THAT(ahead.message,
              AllOf(HasSubstr("62 minutes and 5 seconds ahead"), HasSubstr("set the clock")));
  skewed.headers = {{"Date", format_http_date(kNow + 1'800'000)}};
  EXPECT_THAT(error_of(skewed).message, HasSubstr("30 minutes and 0 seconds behind"));
  skewed.headers = {{"Date", "garbage"}};
  EXPECT_THAT(error_of(skewed).message, HasSubstr("too far"));
}

TEST(S3Error, TheRightRegionIsPassedOn) {
  HttpAnswer moved = no(301, "PermanentRedirect");
  moved.headers.push_back({"x-amz-bucket-region", "eu-west-1"});
  EXPECT_THAT(error_of(moved).message, HasSubstr("set AWS_REGION=eu-west-1"));
  moved.headers.back().value = "evil.com/";
  EXPECT_THAT(error_of(moved).message, Not(HasSubstr("evil")));
}

TEST(S3Error, WhatIsNoObjectStoreIsToldApart) {
  for (const HttpAnswer& answer : std::vector<HttpAnswer>{
           {404, {{"Content-Type", "text/html"}}, "<html><body>404 Not Found</body></html>"},
           {200, {}, "<html>Welcome!</html>"},
           {200, {}, ""},
           {403, {}, "{\"error\": \"forbidden\"}"},
           {400, {}, "\x01\x02\xFF<<<>>>"},
           {404, {}, "<Error><Code></Code></Error>"},
           {302, {{"Location", "/login"}}, "moved"}}) {
    const Error error = error_of(answer);
    EXPECT_EQ(error.code, Code::failed_precondition) << answer.body;
    EXPECT_THAT(error.message, AllOf(HasSubstr("does not answer as an object store does"),
                                     HasSubstr("AWS_ENDPOINT_URL")));
  }
  // A proxy's page on the way is not the endpoint's.
  EXPECT_EQ(error_of({502, {}, "<html>Bad Gateway</html>"}).code, Code::unavailable);
  EXPECT_EQ(error_of({503, {}, "busy"}).code, Code::unavailable);
}

TEST(S3Error, AnAnswerWithoutABodyIsReadByItsStatus) {
  EXPECT_EQ(error_of({404, {}, ""}).code, Code::not_found);
  EXPECT_EQ(error_of({403, {}, ""}).code, Code::permission_denied);
  EXPECT_EQ(error_of({500, {}, ""}).code, Code::unavailable);
  EXPECT_EQ(error_of({400, {}, ""}).code, Code::failed_precondition);
}

TEST(S3Error, WhatTheStoreSaysIsShownShortAndPlain) {
  const Error error =
      error_of(no(400, "InvalidRequest", "first\x01 line\nsecond " + std::string(5000, 'x')));
  EXPECT_THAT(error.message, AllOf(HasSubstr("first? line"), Not(HasSubstr("second"))));
  EXPECT_LT(error_of(no(400, std::string(9000, 'c'), std::string(9000, 'm'))).message.size(), 600U);
}

TEST(S3Error, VerdictsFollowTheCode) {
  const auto verdict = [](int status, const std::string& code) {
    return judge_s3_problem({.code = code, .message = "", .region = ""}, status);
  };
  EXPECT_EQ(verdict(503, "SlowDown"), Verdict::throttle);
  EXPECT_EQ(verdict(400, "RequestTimeout"), Verdict::retry);
  EXPECT_EQ(verdict(409, "OperationAborted"), Verdict::retry);
  EXPECT_EQ(verdict(409, "ConditionalRequestConflict"), Verdict::retry);
  EXPECT_EQ(verdict(400, "ExpiredToken"), Verdict::new_tokens);
  EXPECT_EQ(verdict(403, "InvalidAccessKeyId"), Verdict::new_tokens);
  EXPECT_EQ(verdict(403, "SignatureDoesNotMatch"), Verdict::new_tokens);
  EXPECT_EQ(verdict(500, ""), Verdict::retry);
  for (const std::string code : {"AccessDenied", "NoSuchKey", "PreconditionFailed", "Whatever"}) {
    EXPECT_EQ(verdict(403, code), Verdict::done) << code;
  }
}

}  // namespace
}  // namespace tern
