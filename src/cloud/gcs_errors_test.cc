#include "cloud/gcs_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const GcsPlace kPlace{"https://storage.googleapis.com", "b1", "x/y", "service account e@p"};

HttpAnswer json_answer(int status, const std::string& reason, const std::string& message) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json; charset=UTF-8"}},
          .body = R"({"error":{"code":)" + std::to_string(status) + R"(,"message":")" + message +
                  R"(","errors":[{"domain":"global","reason":")" + reason + R"("}]}})"};
}

TEST(GcsErrors, ARefusedTokenNamesTheCredentials) {
  const Error error =
      gcs_error(json_answer(401, "authError", "Invalid Credentials"), kGcsRead, kPlace);
  EXPECT_EQ(error.code, Code::permission_denied);
  EXPECT_THAT(error.message, AllOf(HasSubstr("service account e@p"), HasSubstr("renew")));
}

TEST(GcsErrors, ARefusalNamesVerbBucketAndPermission) {
  const HttpAnswer answer = json_answer(403, "forbidden", "e@p does not have access");
  EXPECT_THAT(gcs_error(answer, kGcsWrite, kPlace).message,
              AllOf(HasSubstr("no right to write gs://b1/x/y"), HasSubstr("storage.objects.create"),
                    HasSubstr("roles/storage.objectUser")));
  EXPECT_THAT(gcs_error(answer, kGcsList, {"e", "b1", "", "c"}).message,
              AllOf(HasSubstr("list gs://b1 "), HasSubstr("storage.objects.list")));
  EXPECT_THAT(gcs_error(answer, kGcsMakeBucket, {"e", "b1", "", "c"}).message,
              HasSubstr("roles/storage.admin"));
  EXPECT_EQ(gcs_error(answer, kGcsWrite, kPlace).code, Code::permission_denied);
  EXPECT_THAT(
      gcs_error(json_answer(403, "insufficientPermissions", "no"), kGcsWrite, kPlace).message,
      HasSubstr("storage-rw"));
  EXPECT_EQ(gcs_error(json_answer(403, "quotaExceeded", "no"), kGcsWrite, kPlace).code,
            Code::exhausted);
}

TEST(GcsErrors, AnAbsentBucketAndAnAbsentObjectAreToldApart) {
  const Error bucket = gcs_error(
      json_answer(404, "notFound", "The specified bucket does not exist."), kGcsRead, kPlace);
  EXPECT_EQ(bucket.code, Code::not_found);
  EXPECT_THAT(bucket.message, AllOf(HasSubstr("no bucket gs://b1"), HasSubstr("tern store mb")));
  const HttpAnswer object{.status = 404,
                          .headers = {{"Content-Type", "text/html; charset=UTF-8"}},
                          .body = "No such object: b1/x/y"};
  const Error error = gcs_error(object, kGcsRead, kPlace);
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_THAT(error.message, AllOf(HasSubstr("gs://b1/x/y"), Not(HasSubstr("no bucket"))));
  EXPECT_FALSE(is_bucket_absent(object));
}

TEST(GcsErrors, WhatNoStoreAnswersIsCalledThat) {
  for (const int status : {200, 204, 301, 302, 308, 404, 405, 418}) {
    const HttpAnswer page{.status = status, .body = "<html>hello</html>"};
    const Error error = gcs_error(page, kGcsRead, kPlace);
    EXPECT_EQ(error.code, Code::failed_precondition) << status;
    EXPECT_THAT(error.message, HasSubstr("not an object store")) << status;
    EXPECT_THAT(error.message, HasSubstr("STORAGE_EMULATOR_HOST")) << status;
  }
}

TEST(GcsErrors, WhatMayPassIsUnavailable) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_EQ(gcs_error({.status = status}, kGcsRead, kPlace).code, Code::unavailable) << status;
  }
  EXPECT_EQ(gcs_error(json_answer(403, "rateLimitExceeded", "slow"), kGcsRead, kPlace).code,
            Code::unavailable);
}

TEST(GcsErrors, EachAnswerHasItsVerdict) {
  EXPECT_EQ(judge_gcs({.status = 401}), Verdict::new_tokens);
  EXPECT_EQ(judge_gcs({.status = 429}), Verdict::throttle);
  EXPECT_EQ(judge_gcs(json_answer(403, "userRateLimitExceeded", "slow")), Verdict::throttle);
  EXPECT_EQ(judge_gcs(json_answer(403, "forbidden", "no")), Verdict::done);
  EXPECT_EQ(judge_gcs({.status = 502}), Verdict::retry);
  for (const int status : {200, 206, 308, 404, 410, 412, 416}) {
    EXPECT_EQ(judge_gcs({.status = status}), Verdict::done) << status;
  }
}

TEST(GcsErrors, ADamagedUploadIsKnown) {
  EXPECT_TRUE(is_checksum_complaint(
      json_answer(400, "invalid", "Provided CRC32C AAAAAA== doesn't match calculated CRC32C x.")));
  EXPECT_FALSE(is_checksum_complaint(json_answer(400, "invalid", "Invalid bucket name")));
  EXPECT_FALSE(is_checksum_complaint({.status = 400, .body = "<html>"}));
}

}  // namespace
}  // namespace tern
