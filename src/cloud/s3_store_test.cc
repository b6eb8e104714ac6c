// The bucket against answers that real servers do not give when asked; tests/ has the real ones.
#include "cloud/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cloud/test_s3_bucket.h"
#include "cloud/whole_list.h"
#include "core/crypto.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class S3StoreTest : public S3BucketTest {};

TEST_F(S3StoreTest, RequestsAreSignedForTheirRegionAndTheirBody) {
  handler_ = [](const Request&) { return stored(); };
  folder_.variables["AWS_REGION"] = "eu-west-1";
  folder_.variables["AWS_SESSION_TOKEN"] = "session";
  ASSERT_TRUE(bucket().put("a b", "hello"));
  const Request put = server_.requests().front();
  EXPECT_EQ(put.method + " " + put.target, "PUT /runs/a%20b");
  EXPECT_EQ(put.body, "hello");
  EXPECT_EQ(put.header("x-amz-content-sha256"), to_hex(sha256("hello")));
  EXPECT_EQ(put.header("x-amz-security-token"), "session");
  EXPECT_EQ(put.header("x-amz-date"), "20231114T221320Z");
  EXPECT_THAT(put.header("authorization"),
              AllOf(HasSubstr("AKIAIOSFODNN7EXAMPLE/20231114/eu-west-1/s3/aws4_request"),
                    HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
                              "x-amz-security-token,")));
}

TEST_F(S3StoreTest, ChecksumsReplaceTheBodysSignatureWhereTheyAreAskedFor) {
  handler_ = [](const Request&) { return stored(); };
  folder_.variables["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_supported";
  ASSERT_TRUE(bucket().put("a", "123456789"));
  const Request put = server_.requests().front();
  EXPECT_EQ(put.header("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  EXPECT_EQ(put.header("x-amz-checksum-crc32c"), "4waSgw==");  // E3069283, the check value
}

TEST_F(S3StoreTest, ABucketInAnotherRegionIsFoundThere) {
  handler_ = [](const Request& request) {
    if (request.header("authorization").find("/eu-west-1/") != std::string::npos) return stored();
    return answer(400,
                  "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region>"
                  "</Error>");
  };
  ASSERT_TRUE(bucket().put("a", "x"));
  ASSERT_TRUE(bucket().put("b", "x"));
  EXPECT_THAT(asked(), SizeIs(3)) << "the second knows it";
  EXPECT_THAT(bucket().credentials().value(), HasSubstr("region eu-west-1"));
}

TEST_F(S3StoreTest, AStoreThatSendsFromRegionToRegionIsAnErrorSoon) {
  std::atomic<int> count = 0;
  handler_ = [&](const Request&) {
    return answer(301, "<Error><Code>PermanentRedirect</Code></Error>",
                  {fmt::format("x-amz-bucket-region: region-{}", ++count)});
  };
  const Status status = bucket().put("a", "x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::failed_precondition);
  EXPECT_EQ(count, 2);
}

TEST_F(S3StoreTest, ExpiredKeysAreReadAnewOnce) {
  folder_.variables.erase("AWS_ACCESS_KEY_ID");
  folder_.variables.erase("AWS_SECRET_ACCESS_KEY");
  const auto write_key = [&](const std::string& id) {
    folder_.write(".aws/credentials",
                  fmt::format("[default]\naws_access_key_id={}\naws_secret_access_key=s\n", id));
  };
  write_key("OLD");
  handler_ = [&](const Request& request) {
    const bool is_new = request.header("authorization").find("=NEW/") != std::string::npos;
    return is_new ? stored() : no(400, "ExpiredToken");
  };
  ASSERT_NE(&bucket(), nullptr);
  write_key("NEW");
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(bucket().put("a", "x"));
  EXPECT_THAT(asked(), SizeIs(2));
}

TEST_F(S3StoreTest, ListsGoOverAllPagesAndAreSorted) {
  handler_ = [](const Request& request) {
    const bool second = request.target.find("continuation-token=t%2F2") != std::string::npos;
    return answer(
        200, second ? "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a/1</Key>"
                      "<Size>1</Size></Contents></ListBucketResult>"
                    : "<ListBucketResult><EncodingType>url</EncodingType>"
                      "<IsTruncated>true</IsTruncated><NextContinuationToken>t/2"
                      "</NextContinuationToken><Contents><Key>a/2+%2B</Key><Size>2</Size>"
                      "</Contents></ListBucketResult>");
  };
  EXPECT_THAT(bucket().list("a/").value(),
              ElementsAre(ObjectInfo{"a/1", 1}, ObjectInfo{"a/2 +", 2}));
  EXPECT_THAT(asked(), ElementsAre("GET /runs?list-type=2&encoding-type=url&prefix=a%2F",
                                   "GET /runs?list-type=2&encoding-type=url&prefix=a%2F&"
                                   "continuation-token=t%2F2"));
}

TEST_F(S3StoreTest, NamesThatAreNoneHereAreListedOnlyWhenAskedFor) {
  handler_ = [](const Request&) {
    return answer(200,
                  "<ListBucketResult><Contents><Key>a//b</Key><Size>1</Size></Contents>"
                  "<Contents><Key>ok</Key><Size>2</Size></Contents></ListBucketResult>");
  };
  EXPECT_THAT(bucket().list("").value(), ElementsAre(ObjectInfo{"ok", 2}));
  int64_t told = 0;
  EXPECT_THAT(list_whole(bucket(), "", [&told](int64_t more) { told += more; }).value(),
              ElementsAre(ObjectInfo{"a//b", 1}, ObjectInfo{"ok", 2}));
  EXPECT_EQ(told, 2);
}

// Taken for whole, a part of a listing would let what is missing be written or removed anew.
TEST_F(S3StoreTest, AListingThatNeverEndsIsCorrupt) {
  handler_ = [](const Request& request) {
    if (request.target.find("uploads") != std::string::npos) {
      return answer(200,
                    "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>same"
                    "</NextKeyMarker></ListMultipartUploadsResult>");
    }
    return answer(200,
                  "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>same"
                  "</NextContinuationToken></ListBucketResult>");
  };
  const auto listed = bucket().list("runs/");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::corrupt);
  EXPECT_THAT(listed.error().message, AllOf(HasSubstr("'runs/'"), HasSubstr("does not end")));
  EXPECT_THAT(asked(), SizeIs(2));
  const auto uploads = bucket().list_uploads("");
  ASSERT_FALSE(uploads);
  EXPECT_EQ(uploads.error().code, Code::corrupt);
  EXPECT_THAT(asked(), SizeIs(4));
}

TEST_F(S3StoreTest, AListingOfTooManyPagesIsCorrupt) {
  options_.pages_max = 3;
  std::atomic<int> count = 0;
  handler_ = [&](const Request& request) {
    const int page = ++count;
    const char* const format =
        request.target.find("uploads") != std::string::npos
            ? "<ListMultipartUploadsResult><IsTruncated>{}</IsTruncated><NextKeyMarker>{}"
              "</NextKeyMarker></ListMultipartUploadsResult>"
            : "<ListBucketResult><IsTruncated>{}</IsTruncated><NextContinuationToken>{}"
              "</NextContinuationToken></ListBucketResult>";
    return answer(200, fmt::format(fmt::runtime(format), page % 4 == 3 ? "false" : "true", page));
  };
  EXPECT_TRUE(bucket().list(""));
  count = 3;  // the fourth has another after it
  EXPECT_EQ(bucket().list("").error().code, Code::corrupt);
  EXPECT_THAT(asked(), SizeIs(6));
  count = 3;
  const auto uploads = bucket().list_uploads("");
  ASSERT_FALSE(uploads);
  EXPECT_EQ(uploads.error().code, Code::corrupt);
}

TEST_F(S3StoreTest, ManyAreRemovedAThousandAtATime) {
  std::atomic<int> keys = 0;
  handler_ = [&](const Request& request) {
    if (request.method == "DELETE") {
      return request.target == "/runs/n3" ? no(403, "AccessDenied") : answer(204);
    }
    EXPECT_EQ(request.header("content-md5"), base64(md5(request.body)));
    for (size_t at = request.body.find("<Key>"); at != std::string::npos;
         at = request.body.find("<Key>", at + 1)) {
      ++keys;
    }
    const bool first = request.body.find("<Key>n1</Key>") != std::string::npos;
    return answer(200, first ? "<DeleteResult><Error><Key>n1</Key><Code>InternalError</Code>"
                               "</Error><Error><Key>n3</Key><Code>AccessDenied</Code></Error>"
                               "</DeleteResult>"
                             : "<DeleteResult/>");
  };
  std::vector<std::string> names;
  for (int i = 0; i < 1500; ++i) names.push_back(fmt::format("n{}", i));
  const Status status = bucket().remove_all(names);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::permission_denied);
  EXPECT_THAT(status.error().message, HasSubstr("may not remove s3://runs/n3"));
  EXPECT_EQ(keys, 1500);
  EXPECT_THAT(asked(), ElementsAre("POST /runs?delete", "DELETE /runs/n1", "DELETE /runs/n3",
                                   "POST /runs?delete"));
}

TEST_F(S3StoreTest, AStoreWithoutBatchesRemovesOneByOne) {
  handler_ = [](const Request& request) {
    return request.method == "POST" ? no(501, "NotImplemented") : answer(204);
  };
  const std::vector<std::string> names = {"a", "bad//name", "b"};
  EXPECT_EQ(bucket().remove_all(names).error().code, Code::invalid);
  EXPECT_THAT(asked(), ElementsAre("POST /runs?delete", "DELETE /runs/a", "DELETE /runs/b"));
}

TEST_F(S3StoreTest, RemovingFromABucketThatIsNotThereIsAnError) {
  handler_ = [](const Request&) { return no(404, "NoSuchBucket"); };
  EXPECT_EQ(bucket().remove("a").error().code, Code::not_found);
  handler_ = [](const Request&) { return no(404, "NoSuchKey"); };
  EXPECT_TRUE(bucket().remove("a"));
}

TEST_F(S3StoreTest, ABucketIsMadeInItsRegion) {
  handler_ = [](const Request&) { return answer(200); };
  folder_.variables["AWS_REGION"] = "eu-west-1";
  EXPECT_TRUE(bucket().make_bucket());
  EXPECT_EQ(asked().front(), "PUT /runs");
  EXPECT_THAT(server_.requests().front().body,
              HasSubstr("<LocationConstraint>eu-west-1</LocationConstraint>"));
  handler_ = [](const Request&) { return no(409, "BucketAlreadyOwnedByYou"); };
  EXPECT_TRUE(bucket().make_bucket());
}

TEST_F(S3StoreTest, ABucketOfSomebodyElseIsNotMade) {
  handler_ = [](const Request& request) {
    return request.method == "PUT" ? no(409, "BucketAlreadyExists") : no(403, "AccessDenied");
  };
  const Status status = bucket().make_bucket();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("choose another"));
  EXPECT_EQ(server_.requests().front().body, "") << "us-east-1 has no LocationConstraint";
}

TEST_F(S3StoreTest, UploadsAreListedByTheirNamesAndThoseThatAreNamedAreAborted) {
  handler_ = [&](const Request& request) {
    if (request.method == "DELETE") {
      return request.target.ends_with("gone") ? no(404, "NoSuchUpload") : answer(204);
    }
    const auto upload = [&](const std::string& id, int64_t age_ms) {
      return fmt::format(
          "<Upload><Key>k {0}</Key><UploadId>{0}</UploadId><Initiated>{1}"
          "</Initiated></Upload>",
          id, format_utc(clock_.unix_ms() - age_ms));
    };
    // A store that ignores the prefix.
    return answer(200, "<ListMultipartUploadsResult>" + upload("old", 7'200'000) +
                           upload("gone", 60'000) +
                           "<Upload><Key>other</Key><UploadId>o</UploadId><Initiated>" +
                           format_utc(clock_.unix_ms()) +
                           "</Initiated></Upload></ListMultipartUploadsResult>");
  };
  const auto uploads = bucket().list_uploads("k ");
  ASSERT_TRUE(uploads) << uploads.error().to_string();
  ASSERT_EQ(uploads->size(), 2U);
  EXPECT_EQ(uploads->front().name, "k old");
  EXPECT_EQ(uploads->front().began_unix_ms / 1000, clock_.unix_ms() / 1000 - 7200);
  EXPECT_THAT(asked().back(), HasSubstr("prefix=k%20"));
  EXPECT_TRUE(bucket().abort_uploads(*uploads)) << "one that is gone is no failure";
  EXPECT_THAT(asked(), testing::IsSupersetOf({"DELETE /runs/k%20old?uploadId=old",
                                              "DELETE /runs/k%20gone?uploadId=gone"}));
  handler_ = [](const Request&) { return no(403, "AccessDenied"); };
  const Status refused = bucket().abort_uploads(*uploads);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("s3:AbortMultipartUpload"));
  EXPECT_THAT(bucket().list_uploads("").error().message,
              HasSubstr("s3:ListBucketMultipartUploads"));
}

TEST_F(S3StoreTest, AnEndpointThatIsNoObjectStoreIsToldByEveryVerb) {
  for (const int status : {200, 404, 403}) {
    handler_ = [status](const Request& request) {
      if (request.method == "HEAD") return Reply{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"};
      return answer(status, "<!DOCTYPE html><html><body>Hello<br></body></html>",
                    {"Content-Type: text/html"});
    };
    const std::vector<Status> outcomes = {
        bucket().put("a", "x"), bucket().create("a", "x"),
        bucket().get("a") ? Status() : bucket().get("a").error(),
        bucket().stat("a") ? Status() : bucket().stat("a").error(),
        bucket().get_range("a", 0, 5) ? Status() : bucket().get_range("a", 0, 5).error()};
    for (const Status& outcome : outcomes) {
      ASSERT_FALSE(outcome) << status;
      EXPECT_EQ(outcome.error().code, Code::failed_precondition) << outcome.error().message;
      EXPECT_THAT(outcome.error().message, HasSubstr("AWS_ENDPOINT_URL"));
    }
    const auto list = bucket().list("");
    ASSERT_FALSE(list);
    EXPECT_THAT(list.error().message, HasSubstr("object store"));
  }
}

TEST_F(S3StoreTest, NoSecretIsInAnyMessage) {
  for (const std::string code : {"SignatureDoesNotMatch", "AccessDenied", "InvalidAccessKeyId",
                                 "RequestTimeTooSkewed", "PermanentRedirect", "InvalidRequest"}) {
    handler_ = [code](const Request&) { return no(403, code); };
    const Status status = bucket().put("a", "x");
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, AllOf(Not(HasSubstr(kSecret)), Not(HasSubstr("Signature=")),
                                              Not(HasSubstr("AKIAIOSFODNN7EXAMPLE"))));
  }
  EXPECT_THAT(bucket().credentials().value(), Not(HasSubstr(kSecret)));
}

TEST_F(S3StoreTest, ABadBucketNameIsRefused) {
  for (const std::string name : {"", "ab", "a/b", "evil.com#", "a b c", "\xC3\xA9\xC3\xA9"}) {
    StoreAddress address;
    address.bucket = name;
    const auto opened = open_s3(address, folder_.surroundings(), *transport_, options_);
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, Code::invalid);
  }
}

}  // namespace
}  // namespace tern
