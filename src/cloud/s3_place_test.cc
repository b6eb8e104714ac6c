#include "cloud/s3_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud/test_aws_folder.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

Result<S3Place> find(const std::string& bucket, const Variables& variables,
                     const AwsSettings& config = {}) {
  AwsFolder folder;
  folder.variables = variables;
  AwsProfile profile;
  profile.config = config;
  return find_s3_place(bucket, folder.surroundings(), profile);
}

std::string url(const std::string& bucket, const Variables& variables,
                const AwsSettings& config = {}) {
  const S3Place place = find(bucket, variables, config).value();
  return place.url(place.region, "a b/c+d", {});
}

TEST(S3Place, AwsIsSpokenToByTheBucketsHost) {
  EXPECT_EQ(url("bucket", {}), "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c%2Bd");
  EXPECT_EQ(url("bucket", {{"AWS_REGION", "eu-west-1"}, {"AWS_DEFAULT_REGION", "x"}}),
            "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c%2Bd");
  EXPECT_EQ(url("bucket", {{"AWS_DEFAULT_REGION", "cn-north-1"}}),
            "https://bucket.s3.cn-north-1.amazonaws.com.cn/a%20b/c%2Bd");
  EXPECT_EQ(url("bucket", {}, {{"region", "sa-east-1"}}),
            "https://bucket.s3.sa-east-1.amazonaws.com/a%20b/c%2Bd");
}

TEST(S3Place, ABucketWithDotsAndOtherEndpointsAreSpokenToByPath) {
  EXPECT_EQ(url("my.bucket", {}), "https://s3.us-east-1.amazonaws.com/my.bucket/a%20b/c%2Bd");
  EXPECT_EQ(url("bucket", {{"AWS_ENDPOINT_URL", "http://localhost:9000/"}}),
            "http://localhost:9000/bucket/a%20b/c%2Bd");
  EXPECT_EQ(
      url("bucket", {{"AWS_ENDPOINT_URL", "http://a"}, {"AWS_ENDPOINT_URL_S3", "http://b/s3"}}),
      "http://b/s3/bucket/a%20b/c%2Bd");
  EXPECT_EQ(url("bucket", {}, {{"endpoint_url", "https://storage.example"}}),
            "https://storage.example/bucket/a%20b/c%2Bd");
}

TEST(S3Place, TheStyleCanBeChosen) {
  const Variables local = {{"AWS_ENDPOINT_URL", "http://localhost:9000"}};
  EXPECT_EQ(url("bucket", local, {{"s3.addressing_style", "virtual"}}),
            "http://bucket.localhost:9000/a%20b/c%2Bd");
  EXPECT_EQ(
      url("bucket", {{"AWS_S3_ADDRESSING_STYLE", "path"}}, {{"s3.addressing_style", "virtual"}}),
      "https://s3.us-east-1.amazonaws.com/bucket/a%20b/c%2Bd");
  EXPECT_EQ(url("bucket", local, {{"s3.addressing_style", "auto"}}),
            "http://localhost:9000/bucket/a%20b/c%2Bd");
  EXPECT_FALSE(find("bucket", {{"AWS_S3_ADDRESSING_STYLE", "sideways"}}));
}

TEST(S3Place, QueriesAreEncodedAndABareNameStaysBare) {
  const S3Place place = find("bucket", {{"AWS_ENDPOINT_URL", "http://h"}}).value();
  EXPECT_EQ(place.url("r", "", {{"uploads", ""}, {"key-marker", "a&b=c /\xC3\xA9"}}),
            "http://h/bucket?uploads&key-marker=a%26b%3Dc%20%2F%C3%A9");
}

TEST(S3Place, ChecksumsAreAwssUnlessAskedFor) {
  const Variables local = {{"AWS_ENDPOINT_URL", "http://h"}};
  EXPECT_TRUE(find("bucket", {})->crc32c);
  EXPECT_FALSE(find("bucket", local)->crc32c);
  EXPECT_TRUE(find("bucket", local, {{"request_checksum_calculation", "when_supported"}})->crc32c);
  EXPECT_FALSE(find("bucket", {{"AWS_REQUEST_CHECKSUM_CALCULATION", "when_required"}})->crc32c);
}

TEST(S3Place, ABadEndpointIsRefusedWithoutBeingRepeated) {
  for (const std::string endpoint :
       {"localhost:9000", "ftp://h", "http://", "http:///x", "http://user:hunter2@h",
        "https://h?x=hunter2", "http://h h", "http://h/#x"}) {
    const auto place = find("bucket", {{"AWS_ENDPOINT_URL", endpoint}});
    ASSERT_FALSE(place) << endpoint;
    EXPECT_EQ(place.error().code, Code::invalid);
    EXPECT_THAT(place.error().message, AllOf(HasSubstr("AWS_ENDPOINT_URL"), HasSubstr("give one"),
                                             Not(HasSubstr("hunter2"))));
  }
}

TEST(S3Place, ARegionIsAPlainWord) {
  for (const std::string region : {"us-east-1", "eu-central-1", "auto", "garage", "r_1"}) {
    EXPECT_TRUE(is_region(region)) << region;
  }
  for (const std::string region : {"", "a.b", "evil.com/", "A", "a b", "a@b"}) {
    EXPECT_FALSE(is_region(region)) << region;
  }
  EXPECT_FALSE(find("bucket", {{"AWS_REGION", "evil.com/x"}}));
}

}  // namespace
}  // namespace tern
