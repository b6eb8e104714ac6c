#include "cloud/aws_credentials.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cloud/aws_metadata.h"
#include "cloud/test_aws_folder.h"
#include "core/test_web_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Request = TestWebServer::Request;
using Reply = TestWebServer::Reply;

constexpr const char* kSecret = "wJalrXUtnFEMI-secret";

class AwsCredentialsTest : public testing::Test {
 protected:
  std::unique_ptr<AwsCredentials> found() {
    auto credentials = AwsCredentials::find(folder_.surroundings(), clock_);
    EXPECT_TRUE(credentials) << (credentials ? "" : credentials.error().to_string());
    return credentials ? std::move(*credentials) : nullptr;
  }
  // Of find(), or of the first use.
  Error problem() {
    auto credentials = AwsCredentials::find(folder_.surroundings(), clock_);
    if (!credentials) return credentials.error();
    const auto keys = (*credentials)->keys(/*refresh=*/false);
    EXPECT_FALSE(keys);
    return keys ? fail(Code::internal, "") : keys.error();
  }
  std::string access_key() {
    const auto credentials = found();
    return credentials ? credentials->keys(/*refresh=*/false).value().access_key_id : "";
  }
  void write_profile(const std::string& file, const std::string& section, const std::string& id) {
    folder_.write(".aws/" + file,
                  fmt::format("[{}]\naws_access_key_id = {}\naws_secret_access_key = {}\n", section,
                              id, kSecret));
  }
  std::string role_json(const std::string& id, int64_t lifetime_ms) {
    return fmt::format(R"({{"Code":"Success","AccessKeyId":"{}","SecretAccessKey":"{}",)"
                       R"("Token":"token","Expiration":"{}"}})",
                       id, kSecret, format_utc(clock_.unix_ms() + lifetime_ms));
  }

  AwsFolder folder_;
  SimClock clock_;
};

TEST_F(AwsCredentialsTest, PlacesAreTakenInTheirOrder) {
  folder_.variables = {{"AWS_ACCESS_KEY_ID", "of-environment"},
                       {"AWS_SECRET_ACCESS_KEY", kSecret},
                       {"AWS_SESSION_TOKEN", "t"}};
  write_profile("credentials", "default", "of-credentials");
  write_profile("config", "default", "of-config");
  EXPECT_EQ(access_key(), "of-environment");
  EXPECT_EQ(found()->keys(/*refresh=*/false)->session_token, "t");
  folder_.variables.clear();
  EXPECT_EQ(access_key(), "of-credentials");
  folder_.write(".aws/credentials", "");
  EXPECT_EQ(access_key(), "of-config");
}

TEST_F(AwsCredentialsTest, TheyAreDescribedWithoutTheirSecret) {
  write_profile("credentials", "default", "AKIAIOSFODNN7EXAMPLE");
  EXPECT_EQ(found()->describe().value(),
            fmt::format("access key ending in MPLE of profile 'default' in {}",
                        (folder_.path() / ".aws/credentials").string()));
}

TEST_F(AwsCredentialsTest, HalfAKeyIsToldBeforeAnythingBegins) {
  folder_.variables = {{"AWS_ACCESS_KEY_ID", "A"}};
  const auto half = AwsCredentials::find(folder_.surroundings(), clock_);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, Code::failed_precondition);
  EXPECT_THAT(half.error().message, HasSubstr("set both"));
  folder_.variables = {{"AWS_ACCESS_KEY_ID", "A\n"}, {"AWS_SECRET_ACCESS_KEY", kSecret}};
  EXPECT_THAT(problem().message, AllOf(HasSubstr("copy it again"), Not(HasSubstr(kSecret))));
}

TEST_F(AwsCredentialsTest, WaysThatAreNotSupportedAreNamed) {
  for (const std::string setting :
       {"role_arn", "sso_session", "sso_start_url", "credential_process"}) {
    folder_.write(".aws/config", fmt::format("[default]\n{} = something\n", setting));
    const Error error = problem();
    EXPECT_EQ(error.code, Code::failed_precondition) << setting;
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("profile 'default' has " + setting),
                      HasSubstr("aws configure export-credentials --profile default")));
  }
  folder_.write(".aws/config", "");
  folder_.variables = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/x"}, {"AWS_ROLE_ARN", "arn"}};
  EXPECT_THAT(problem().message, HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE is set"));
}

TEST_F(AwsCredentialsTest, KeysInTheCredentialsFileComeBeforeAProcessInTheConfig) {
  write_profile("credentials", "default", "of-credentials");
  folder_.write(".aws/config", "[default]\ncredential_process = /bin/false\n");
  EXPECT_EQ(access_key(), "of-credentials");
}

TEST_F(AwsCredentialsTest, WhereNothingIsFoundAllPlacesAreListed) {
  folder_.variables = {{"AWS_EC2_METADATA_DISABLED", "TRUE"}};
  const auto credentials = AwsCredentials::find(folder_.surroundings(), clock_);
  ASSERT_FALSE(credentials);
  EXPECT_EQ(credentials.error().code, Code::failed_precondition);
  EXPECT_THAT(
      credentials.error().message,
      AllOf(HasSubstr("AWS_ACCESS_KEY_ID (not set)"), HasSubstr(".aws/credentials (no such"),
            HasSubstr("AWS_EC2_METADATA_DISABLED"), HasSubstr("aws configure")));
}

TEST_F(AwsCredentialsTest, WhereNoInstanceAnswersThatIsSaidAtTheFirstUse) {
  std::string nobody;
  {
    TestWebServer gone([](const Request&) { return Reply{}; });
    nobody = gone.url("");
  }
  folder_.variables = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", nobody}};
  const auto credentials = found();
  const auto keys = credentials->keys(/*refresh=*/false);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, Code::failed_precondition);
  EXPECT_THAT(keys.error().message, AllOf(HasSubstr("AWS_ACCESS_KEY_ID (not set)"),
                                          HasSubstr("the instance metadata service at")));
}

TEST_F(AwsCredentialsTest, ARefusedKeyIsReadFromItsFileAnew) {
  write_profile("credentials", "default", "old");
  const auto credentials = found();
  write_profile("credentials", "default", "new");
  EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "old");
  // Within 30 seconds it is the answer to the same complaint.
  EXPECT_EQ(credentials->keys(/*refresh=*/true)->access_key_id, "old");
  clock_.advance(std::chrono::seconds(31));
  EXPECT_EQ(credentials->keys(/*refresh=*/true)->access_key_id, "new");
}

// An instance with a role, as IMDSv2 has it.
class InstanceRoleTest : public AwsCredentialsTest {
 protected:
  InstanceRoleTest() {
    folder_.variables = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server_.url("/")}};
  }

  Reply serve(const Request& request) {
    const int status = status_;
    if (status == 0) return {.bytes = "", .then = Reply::Then::close};
    if (status != 200) return {TestWebServer::answer(status)};
    if (request.target == "/latest/api/token") {
      const bool good = request.method == "PUT" &&
                        request.header("x-aws-ec2-metadata-token-ttl-seconds") == "21600";
      return {TestWebServer::answer(good ? 200 : 400, "imds-token")};
    }
    if (request.header("x-aws-ec2-metadata-token") != "imds-token") {
      return {TestWebServer::answer(401)};
    }
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    if (request.target == roles) return {TestWebServer::answer(200, "my-role\n")};
    if (request.target != roles + "my-role") return {TestWebServer::answer(404)};
    const int number = ++given_;
    return {TestWebServer::answer(200, role_json(fmt::format("role-{}", number), 3'600'000))};
  }

  std::atomic<int> status_ = 200;
  std::atomic<int> given_ = 0;
  TestWebServer server_{[this](const Request& request) { return serve(request); }};
};

TEST_F(InstanceRoleTest, KeysAreFetchedOnceAndAgainBeforeTheyExpire) {
  const auto credentials = found();
  EXPECT_TRUE(server_.requests().empty()) << "find() sends nothing";
  const AwsKeys keys = credentials->keys(/*refresh=*/false).value();
  EXPECT_EQ(keys.access_key_id, "role-1");
  EXPECT_EQ(keys.session_token, "token");
  clock_.advance(std::chrono::minutes(54));
  EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-1");
  clock_.advance(std::chrono::seconds(61));
  EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-2");
  EXPECT_THAT(credentials->describe().value(), HasSubstr("the instance's role my-role"));
}

TEST_F(InstanceRoleTest, OldKeysAreUsedUntilTheirEndWhenNewOnesCannotBeHad) {
  const auto credentials = found();
  ASSERT_TRUE(credentials->keys(/*refresh=*/false));
  status_ = 500;
  clock_.advance(std::chrono::minutes(57));
  EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-1");
  clock_.advance(std::chrono::minutes(4));
  EXPECT_FALSE(credentials->keys(/*refresh=*/false));
  status_ = 200;
  clock_.advance(std::chrono::seconds(3));
  EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-2");
}

// Else every request would ask in vain, one after another.
TEST_F(InstanceRoleTest, WhileOldKeysHoldNewOnesAreAskedForEveryHalfMinute) {
  const auto credentials = found();
  ASSERT_TRUE(credentials->keys(/*refresh=*/false));
  status_ = 500;
  clock_.advance(std::chrono::minutes(56));
  const auto asks = [&] {
    const size_t before = server_.requests().size();
    EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-1");
    return server_.requests().size() - before;
  };
  EXPECT_GT(asks(), 0U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(asks(), 0U);
  clock_.advance(std::chrono::seconds(31));
  EXPECT_GT(asks(), 0U);
  status_ = 200;
  EXPECT_EQ(asks(), 0U);
  clock_.advance(std::chrono::seconds(31));
  EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-2");
}

TEST_F(InstanceRoleTest, AServiceThatIsThereAndDoesNotAnswerNowIsUnavailable) {
  for (const int status : {500, 503, 429}) {
    status_ = status;
    const Error error = problem();
    EXPECT_EQ(error.code, Code::unavailable) << status;
    EXPECT_THAT(error.message, HasSubstr(fmt::format("status {}", status)));
  }
  status_ = 200;
  const auto credentials = found();
  ASSERT_TRUE(credentials->keys(/*refresh=*/false));
  status_ = 0;  // nothing but a closed connection
  clock_.advance(std::chrono::minutes(61));
  EXPECT_EQ(credentials->keys(/*refresh=*/false).error().code, Code::unavailable);
}

TEST_F(InstanceRoleTest, NoProxySeesTheKeys) {
  TestWebServer proxy([](const Request&) { return Reply{TestWebServer::answer(500)}; });
  ASSERT_EQ(setenv("http_proxy", proxy.url("").c_str(), /*overwrite=*/1), 0);
  const auto keys = found()->keys(/*refresh=*/false);
  unsetenv("http_proxy");
  EXPECT_TRUE(keys);
  EXPECT_TRUE(proxy.requests().empty());
}

TEST_F(InstanceRoleTest, OfManyThreadsOneFetches) {
  const auto credentials = found();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back(
          [&] { EXPECT_EQ(credentials->keys(/*refresh=*/false)->access_key_id, "role-1"); });
    }
  }
  EXPECT_EQ(given_, 1);
}

TEST_F(InstanceRoleTest, AMachineWithoutARoleIsToldSo) {
  for (const int status : {404, 403}) {
    status_ = status;
    const Error error = problem();
    EXPECT_EQ(error.code, Code::failed_precondition);
    EXPECT_THAT(error.message, AllOf(HasSubstr(fmt::format("status {}", status)),
                                     HasSubstr("AWS_ACCESS_KEY_ID (not set)")));
  }
}

TEST_F(AwsCredentialsTest, AContainersServiceIsAskedWithItsToken) {
  TestWebServer server([&](const Request& request) -> Reply {
    const bool known = request.header("authorization") == "pod-token" && request.target == "/v1/k";
    return {TestWebServer::answer(known ? 200 : 401, role_json("of-container", 3'600'000))};
  });
  folder_.variables = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url("/v1/k")},
                       {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token"}};
  EXPECT_EQ(access_key(), "of-container");
  folder_.write("token", "pod-token\n");
  folder_.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "wrong";
  EXPECT_THAT(problem().message, AllOf(HasSubstr("status 401"), Not(HasSubstr("wrong"))));
  folder_.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder_.path() / "token";
  EXPECT_EQ(access_key(), "of-container");
}

TEST(ContainerUrl, OnlyNearOrEncryptedServicesAreAsked) {
  for (const std::string url :
       {"http://127.0.0.1:8080/x", "http://localhost/x", "http://169.254.170.2/v2",
        "http://169.254.170.23/v1/credentials", "http://[::1]:80/", "http://[fd00:ec2::23]/v1",
        "https://example.com/keys"}) {
    EXPECT_TRUE(check_container_url(url)) << url;
  }
  for (const std::string url :
       {"http://example.com/keys", "http://127.0.0.1@example.com/", "http://127.evil.com/",
        "http://10.0.0.1/", "http://[2001:db8::1]/", "ftp://127.0.0.1/", "127.0.0.1", "", "http://",
        "http://[::1", "http://localhost.example.com/"}) {
    const Status status = check_container_url(url);
    ASSERT_FALSE(status) << url;
    EXPECT_EQ(status.error().code, Code::invalid);
  }
}

TEST(RoleKeys, GarbageIsAnError) {
  const std::string good = R"({"AccessKeyId":"A","SecretAccessKey":"S","Token":"T",)"
                           R"("Expiration":"2026-01-01T00:00:00Z"})";
  EXPECT_EQ(parse_role_keys(good)->expires_unix_ms, 1'767'225'600'000);
  for (size_t i = 0; i < good.size(); ++i) EXPECT_FALSE(parse_role_keys(good.substr(0, i))) << i;
  for (const std::string text :
       {"null", "[]", "{}", "3", "<html>", R"({"AccessKeyId":1,"SecretAccessKey":[],"Token":{}})",
        R"({"Code":"Failed"})",
        R"({"AccessKeyId":"A\r\nX: y","SecretAccessKey":"S","Expiration":"2026-01-01T00:00:00Z"})",
        R"({"AccessKeyId":"A","SecretAccessKey":"S","Expiration":"soon"})"}) {
    EXPECT_FALSE(parse_role_keys(text)) << text;
  }
}

}  // namespace
}  // namespace tern
