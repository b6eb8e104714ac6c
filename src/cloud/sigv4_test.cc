// Against what AWS publishes: its Signature Version 4 test suite, and the examples of S3's
// documentation ("Signature Calculations for the Authorization Header").
#include "cloud/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hash.h"

namespace tern {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string authorization(const HttpRequest& request) {
  for (const HttpHeader& header : request.headers) {
    if (header.name == "Authorization") return header.value;
  }
  return {};
}

// 2015-08-30T12:36:00Z, with the suite's keys.
std::string suite(HttpRequest request, const std::string& token = "") {
  const AwsKeys keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token};
  sign_v4(request, keys, {"us-east-1", "service"}, 1'440'938'160'000, to_hex(sha256(request.body)));
  return authorization(request);
}

std::string suite_get(const std::string& target, std::vector<HttpHeader> headers = {}) {
  return suite({.url = "https://example.amazonaws.com" + target, .headers = std::move(headers)});
}

TEST(SigV4, TheSuitesPlainRequestIsSignedToTheByte) {
  EXPECT_EQ(suite_get("/"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_EQ(suite_get(""), suite_get("/"));
}

TEST(SigV4, TheSuitesQueriesArePutInOrder) {
  EXPECT_THAT(suite_get("/?Param2=value2&Param1=value1"),
              EndsWith("=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"));
  EXPECT_THAT(suite_get("/?%E1%88%B4=bar"),
              EndsWith("=2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"));
  EXPECT_THAT(suite_get("/?Param1=value1"),
              EndsWith("=a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"));
}

TEST(SigV4, TheSuitesOddPathsAreEncodedOnce) {
  EXPECT_THAT(suite_get("/" + percent_encode("\xE1\x88\xB4")),
              EndsWith("=8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"));
  EXPECT_THAT(suite_get("/" + percent_encode("example space") + "/"),
              EndsWith("=652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"));
}

TEST(SigV4, TheSuitesFormsAreSignedWithTheirBody) {
  const std::string form = "application/x-www-form-urlencoded";
  HttpRequest request = {.method = "POST",
                         .url = "https://example.amazonaws.com/",
                         .headers = {{"Content-Type", form}},
                         .body = "Param1=value1"};
  EXPECT_THAT(suite(request),
              HasSubstr("SignedHeaders=content-type;host;x-amz-date, Signature="
                        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"));
  request.headers[0].value = form + "; charset=utf8";
  EXPECT_THAT(suite(request),
              EndsWith("=1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"));
}

TEST(SigV4, TheSuitesHeadersAreTrimmedJoinedAndPutInOrder) {
  EXPECT_THAT(suite_get("/", {{"My-Header1", " value1 "}, {"My-Header2", " \"a   b   c\""}}),
              EndsWith("=acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"));
  EXPECT_THAT(
      suite_get("/",
                {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}}),
      EndsWith("=c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"));
}

TEST(SigV4, TheSuitesSessionTokenIsSigned) {
  const std::string token =
      "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSP"
      "fIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT"
      "7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlz"
      "m8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
  EXPECT_THAT(suite({.method = "POST", .url = "https://example.amazonaws.com/"}, token),
              HasSubstr("SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="
                        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"));
}

// 2013-05-24T00:00:00Z, with the documentation's keys and bucket.
std::string s3_example(HttpRequest request) {
  const AwsKeys keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const std::string hash = to_hex(sha256(request.body));
  request.url = "https://examplebucket.s3.amazonaws.com" + request.url;
  request.headers.push_back({"x-amz-content-sha256", hash});
  sign_v4(request, keys, {"us-east-1"}, 1'369'353'600'000, hash);
  return authorization(request);
}

TEST(SigV4, S3sExamplesHaveTheirPublishedSignatures) {
  EXPECT_EQ(s3_example({.url = "/test.txt", .headers = {{"Range", "bytes=0-9"}}}),
            "AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_THAT(s3_example({.method = "PUT",
                          .url = "/" + percent_encode("test$file.text"),
                          .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                          .body = "Welcome to Amazon S3."}),
              EndsWith("=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
  EXPECT_THAT(s3_example({.url = "/?lifecycle"}),
              EndsWith("=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(s3_example({.url = "/?max-keys=2&prefix=J"}),
              EndsWith("=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SigV4, TheHostIsSignedAsItIsSent) {
  EXPECT_EQ(host_header("https://s3.amazonaws.com/a"), "s3.amazonaws.com");
  EXPECT_EQ(host_header("https://S3.example:443?x"), "s3.example");
  EXPECT_EQ(host_header("http://s3.example:443/"), "s3.example:443");
  EXPECT_EQ(host_header("http://127.0.0.1:80/"), "127.0.0.1");
  EXPECT_EQ(host_header("http://[::1]:9000/b/k"), "[::1]:9000");
}

TEST(SigV4, TheEmptyPayloadsHashIsThatOfNothing) {
  EXPECT_EQ(kEmptyPayloadHash, to_hex(sha256("")));
}

}  // namespace
}  // namespace tern
