// What can be wrong with a person's settings or at the other end, for each cloud: every verb
// answers with an error that names the cause and what to do next, shows no secret, and comes within
// the deadline. tests/cloud_bad_input_test.cc has what real servers say.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cloud/open_store.h"
#include "cloud/test_aws_folder.h"
#include "cloud/test_google_key.h"
#include "core/http_date.h"
#include "core/test_web_server.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;
using Request = TestWebServer::Request;
using Reply = TestWebServer::Reply;
using Kind = StoreAddress::Kind;

constexpr char kSecret[] = "bm90LWZvci1hbnlib2R5";
constexpr int64_t kHourMs = 3'600'000;
constexpr char kPage[] = "<!DOCTYPE html><html><body>Welcome<br></body></html>";
constexpr char kBanner[] = "SSH-2.0-OpenSSH_9.2\r\n\r\n";

struct Wrong {
  std::string what;
  Kind cloud = Kind::s3;
  // To each request; by default also for Google's tokens.
  std::function<Reply(const Request&)> reply;
  Code code = Code::permission_denied;
  std::vector<std::string> says;  // the cause, then the next step
};

Reply sent(int status, const std::string& body = "", std::vector<std::string> headers = {}) {
  return {TestWebServer::answer(status, body, std::move(headers))};
}

// A server whose clock is the client's but for `ahead_ms`.
std::string date(int64_t ahead_ms = 0) {
  return "Date: " + format_http_date(SimClock().unix_ms() + ahead_ms);
}

std::function<Reply(const Request&)> always(Reply reply) {
  return [reply = std::move(reply)](const Request&) { return reply; };
}

// HEAD has no body to say it in; what else asks for the object then learns no more than a status.
std::function<Reply(const Request&)> s3_no(int status, const std::string& code,
                                           int64_t ahead_ms = 0) {
  return always(sent(status,
                     fmt::format("<Error><Code>{}</Code><Message>m</Message></Error>", code),
                     {date(ahead_ms)}));
}

std::function<Reply(const Request&)> azure_no(int status, const std::string& code,
                                              int64_t ahead_ms = 0) {
  return always(
      sent(status, "", {"x-ms-request-id: 1", "x-ms-error-code: " + code, date(ahead_ms)}));
}

std::string google_error(const std::string& reason, const std::string& message) {
  return fmt::format(R"({{"error":{{"message":"{}","errors":[{{"reason":"{}"}}]}}}})", message,
                     reason);
}

// Tokens are given; what they are for is refused.
std::function<Reply(const Request&)> google_no(Reply reply) {
  return [reply = std::move(reply)](const Request& request) {
    if (request.target != "/token") return reply;
    return sent(200, R"({"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"})");
  };
}

std::function<Reply(const Request&)> no_token(const std::string& description,
                                              int64_t ahead_ms = 0) {
  return always(
      sent(400, fmt::format(R"({{"error":"invalid_grant","error_description":"{}"}})", description),
           {date(ahead_ms)}));
}

std::vector<Wrong> wrong_on_s3() {
  return {
      {"a wrong secret",
       Kind::s3,
       s3_no(403, "SignatureDoesNotMatch"),
       Code::permission_denied,
       {"the secret key is not the one of this access key", "check AWS_SECRET_ACCESS_KEY"}},
      {"an unknown key",
       Kind::s3,
       s3_no(403, "InvalidAccessKeyId"),
       Code::permission_denied,
       {"does not know this access key", "check AWS_ACCESS_KEY_ID"}},
      {"an expired token",
       Kind::s3,
       s3_no(400, "ExpiredToken"),
       Code::permission_denied,
       {"the session token has expired", "log in again"}},
      {"a missing bucket",
       Kind::s3,
       s3_no(404, "NoSuchBucket"),
       Code::not_found,
       {"there is no bucket 'bucket'", "tern store mb s3://bucket"}},
      {"no permission",
       Kind::s3,
       s3_no(403, "AccessDenied"),
       Code::permission_denied,
       {"these credentials may not", "give them s3:"}},
      {"a wrong clock",
       Kind::s3,
       s3_no(403, "RequestTimeTooSkewed", -kHourMs),
       Code::failed_precondition,
       {"clock is 60 minutes and 0 seconds ahead", "set the clock"}},
      {"no object store",
       Kind::s3,
       always(sent(404, kPage)),
       Code::failed_precondition,
       {"does not answer as an object store does", "AWS_ENDPOINT_URL"}},
  };
}

std::vector<Wrong> wrong_on_azure() {
  return {
      {"a wrong key",
       Kind::azure,
       azure_no(403, "AuthenticationFailed"),
       Code::permission_denied,
       {"the key of account 'acc'", "copy it again"}},
      {"a missing container",
       Kind::azure,
       azure_no(404, "ContainerNotFound"),
       Code::not_found,
       {"there is no such container", "tern store mb az://acc/bucket"}},
      {"no permission",
       Kind::azure,
       azure_no(403, "AuthorizationPermissionMismatch"),
       Code::permission_denied,
       {"may not do this", "Storage Blob Data Contributor"}},
      {"a wrong clock",
       Kind::azure,
       azure_no(403, "AuthenticationFailed", 2 * kHourMs),
       Code::failed_precondition,
       {"clock is 2 hours behind", "set the clock"}},
      {"no object store",
       Kind::azure,
       always(sent(200, kPage)),
       Code::failed_precondition,
       {"not an object store", "AZURE_STORAGE_BLOB_ENDPOINT"}},
  };
}

std::vector<Wrong> wrong_on_gcs() {
  return {
      {"a wrong key",
       Kind::gcs,
       no_token("Invalid JWT Signature."),
       Code::permission_denied,
       {"Invalid JWT Signature", "make a new one and set GOOGLE_APPLICATION_CREDENTIALS"}},
      {"an expired token",
       Kind::gcs,
       google_no(sent(401, google_error("authError", "Invalid Credentials"))),
       Code::permission_denied,
       {"does not accept the credentials", "renew them"}},
      {"a missing bucket",
       Kind::gcs,
       google_no(sent(404, google_error("notFound", "The specified bucket does not exist."))),
       Code::not_found,
       {"there is no bucket gs://bucket", "tern store mb gs://bucket"}},
      {"no permission",
       Kind::gcs,
       google_no(sent(403, google_error("forbidden", "it does not have access"))),
       Code::permission_denied,
       {"no right to", "grant storage."}},
      {"a wrong clock",
       Kind::gcs,
       no_token("Invalid JWT: check your iat and exp", -kHourMs),
       Code::failed_precondition,
       {"clock is 60 minutes ahead", "set the clock"}},
      {"no object store",
       Kind::gcs,
       google_no(sent(404, kPage)),
       Code::failed_precondition,
       {"not an object store", "STORAGE_EMULATOR_HOST"}},
      {"no token endpoint",
       Kind::gcs,
       always(sent(200, kPage)),
       Code::failed_precondition,
       {"what no token endpoint of Google answers", "check 'token_uri'"}},
  };
}

class CloudBadInput : public testing::Test {
 protected:
  CloudBadInput() {
    folder_.write("key.json", nlohmann::json{{"type", "service_account"},
                                             {"client_email", "e@p"},
                                             {"private_key", kRfc7515Key},
                                             {"token_uri", server_.url("/token")}}
                                  .dump());
    folder_.variables = {
        {"AWS_ENDPOINT_URL", server_.url("")},
        {"AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"},
        {"AWS_SECRET_ACCESS_KEY", kSecret},
        {"AZURE_STORAGE_BLOB_ENDPOINT", server_.url("")},
        {"AZURE_STORAGE_KEY", kSecret},
        {"STORAGE_EMULATOR_HOST", server_.url("")},
        {"GOOGLE_APPLICATION_CREDENTIALS", (folder_.path() / "key.json").string()}};
  }

  // Each verb's error; a verb that succeeds is a failed test.
  std::map<std::string, Error> errors_of(Kind cloud) {
    CloudDoor door(folder_.surroundings(), clock_, {}, policy_);
    const auto opened = door.open_bucket(
        {.kind = cloud, .account = cloud == Kind::azure ? "acc" : "", .bucket = "bucket"});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().to_string());
    if (!opened) return {};
    Bucket& bucket = **opened;
    std::map<std::string, Error> errors;
    const auto note = [&](const std::string& verb, const auto& result) {
      EXPECT_FALSE(result) << verb;
      if (!result) errors[verb] = result.error();
    };
    note("list", bucket.list("a"));
    note("get", bucket.get("a"));
    note("get_range", bucket.get_range("a", 1, 2));
    note("put", bucket.put("a", "x"));
    note("create", bucket.create("a", "x"));
    note("remove", bucket.remove("a"));
    return errors;
  }

  AwsFolder folder_;
  SimClock clock_;
  const RetryPolicy policy_{.deadline = Milliseconds(20'000)};
  // Called on the server's threads; not changed while one of them works.
  std::function<Reply(const Request&)> reply_;
  TestWebServer server_{[this](const Request& request) { return reply_(request); }};
};

TEST_F(CloudBadInput, EachIsNamedWithWhatToDoNextByEveryVerb) {
  std::vector<Wrong> all = wrong_on_s3();
  for (const auto& more : {wrong_on_azure(), wrong_on_gcs()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const Wrong& wrong : all) {
    reply_ = wrong.reply;
    const Nanoseconds began = clock_.now();
    for (const auto& [verb, error] : errors_of(wrong.cloud)) {
      SCOPED_TRACE(fmt::format("{}, {}: {}", wrong.what, verb, error.to_string()));
      EXPECT_EQ(error.code, wrong.code);
      for (const std::string& words : wrong.says) EXPECT_THAT(error.message, HasSubstr(words));
      EXPECT_THAT(error.message, Not(HasSubstr(kSecret)));
      EXPECT_THAT(error.message, Not(HasSubstr("PRIVATE KEY")));
    }
    // What will not get better by asking again is not asked again.
    EXPECT_EQ(clock_.now(), began) << wrong.what;
  }
}

TEST_F(CloudBadInput, AnEndedSasTokenIsTold) {
  folder_.variables.erase("AZURE_STORAGE_KEY");
  const std::string end = format_utc(clock_.unix_ms() - kHourMs).substr(0, 19) + "Z";
  folder_.variables["AZURE_STORAGE_SAS_TOKEN"] =
      fmt::format("sv=2020-12-06&sr=c&sp=rl&se={}&sig={}", end, kSecret);
  reply_ = azure_no(403, "AuthenticationFailed");
  for (const auto& [verb, error] : errors_of(Kind::azure)) {
    EXPECT_EQ(error.code, Code::permission_denied) << verb;
    EXPECT_THAT(error.message, HasSubstr("it has ended; make a new one")) << verb;
    EXPECT_THAT(error.message, Not(HasSubstr(kSecret)));
  }
}

// Whatever stands there: its answers are tried as those of each cloud, and told to be none.
TEST_F(CloudBadInput, GarbageIsAnErrorThatSaysWhereToLook) {
  const std::vector<Reply> garbage = {
      sent(200, kPage),
      sent(200, ""),
      sent(200, "\x01\xFF<<<>>>"),
      sent(200, "{}}"),
      sent(200, "[[[[[["),
      sent(200,
           "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents>"
           "</ListBucketResult>"),
      sent(200, "<EnumerationResults><Blobs><Blob><Name>a</Name></Blob></Blobs>"),
      sent(200, "<EnumerationResults><Blobs><Blob><Name>a</Name></Blob>", {"x-ms-request-id: 1"}),
      sent(200, "<Other/>", {"x-ms-request-id: 1"}),
      sent(200, R"({"kind":"storage#objects","items":[{"name":7}]})"),
      sent(200, R"({"items":{}})"),
      sent(302, "moved", {"Location: /login"}),
      sent(418, "short and stout"),
  };
  for (const Kind cloud : {Kind::s3, Kind::azure, Kind::gcs}) {
    for (const Reply& reply : garbage) {
      reply_ = google_no(reply);
      const Nanoseconds began = clock_.now();
      CloudDoor door(folder_.surroundings(), clock_, {}, policy_);
      const auto bucket = door.open_bucket(
          {.kind = cloud, .account = cloud == Kind::azure ? "acc" : "", .bucket = "bucket"});
      ASSERT_TRUE(bucket);
      const auto listed = (*bucket)->list("");
      SCOPED_TRACE(reply.bytes.substr(0, 200));
      ASSERT_FALSE(listed) << static_cast<int>(cloud);
      SCOPED_TRACE(listed.error().to_string());
      EXPECT_THAT(listed.error().code, testing::AnyOf(Code::corrupt, Code::failed_precondition));
      EXPECT_THAT(listed.error().message, HasSubstr("object store"));
      EXPECT_THAT(listed.error().message, testing::AnyOf(HasSubstr("check"), HasSubstr("correct")));
      EXPECT_EQ(clock_.now(), began);
    }
  }
}

// What is no web server at all may be one in a moment: asked again, and not for longer than that.
TEST_F(CloudBadInput, WhatSpeaksAnotherLanguageIsGivenUpAtTheDeadline) {
  for (const Kind cloud : {Kind::s3, Kind::azure, Kind::gcs}) {
    reply_ = google_no({.bytes = kBanner, .then = Reply::Then::close});
    const Nanoseconds began = clock_.now();
    CloudDoor door(folder_.surroundings(), clock_, {}, policy_);
    const auto bucket = door.open_bucket(
        {.kind = cloud, .account = cloud == Kind::azure ? "acc" : "", .bucket = "bucket"});
    ASSERT_TRUE(bucket);
    const auto listed = (*bucket)->list("");
    ASSERT_FALSE(listed);
    SCOPED_TRACE(listed.error().to_string());
    EXPECT_EQ(listed.error().code, Code::unavailable);
    EXPECT_THAT(listed.error().message, HasSubstr(server_.url("").substr(7)));
    EXPECT_LE(clock_.now() - began, policy_.deadline);
  }
}

}  // namespace
}  // namespace tern
