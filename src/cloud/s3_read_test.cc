#include "cloud/s3_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "cloud/test_s3_bucket.h"

namespace tern {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class S3ReadTest : public S3BucketTest {
 protected:
  S3ReadTest() {
    options_ = {.part_bytes = 100, .in_flight_max = 4};
    for (size_t i = 0; i < object_.size(); ++i) object_[i] = static_cast<char>('a' + i % 23);
    handler_ = [this](const Request& request) { return serve(request, object_, "\"v1\""); };
  }

  std::vector<std::string> ranges() const {
    std::vector<std::string> all;
    for (const Request& request : server_.requests()) all.push_back(request.header("range"));
    std::sort(all.begin(), all.end());
    return all;
  }

  std::string object_ = std::string(3050, ' ');
};

TEST_F(S3ReadTest, ASmallObjectIsOneRequest) {
  object_.resize(99);
  EXPECT_EQ(bucket().get("a").value(), object_);
  EXPECT_THAT(ranges(), ElementsAre("bytes=0-99"));
}

TEST_F(S3ReadTest, ALargeObjectIsReadInPartsOfOneVersion) {
  EXPECT_TRUE(bucket().get("a").value() == object_);
  const std::vector<Request> requests = server_.requests();
  EXPECT_THAT(requests, SizeIs(31));
  for (size_t i = 1; i < requests.size(); ++i) EXPECT_EQ(requests[i].header("if-match"), "\"v1\"");
  EXPECT_TRUE(bucket().get_range("a", 950, 1777).value() == object_.substr(950, 1777));
  EXPECT_TRUE(bucket().get_range("a", 2999, INT64_MAX).value() == object_.substr(2999));
}

TEST_F(S3ReadTest, AnObjectReplacedMeanwhileIsReadAnewAndNeverMixed) {
  const std::string next(2000, 'N');
  std::atomic<int> count = 0;
  handler_ = [&](const Request& request) {
    return ++count <= 5 ? serve(request, object_, "\"v1\"") : serve(request, next, "\"v2\"");
  };
  EXPECT_TRUE(bucket().get("a").value() == next);
}

TEST_F(S3ReadTest, AStoreThatIgnoresIfMatchMixesNothingEither) {
  const std::string next(object_.size(), 'N');
  for (const std::string etag : {"\"v2\"", "\"v1\""}) {
    // The same ETag with another size: a store that looks it up first and opens the object then.
    const std::string later = etag == "\"v1\"" ? next.substr(1) : next;
    std::atomic<int> count = 0;
    handler_ = [&](Request request) {
      request.headers.erase("if-match");
      const bool is_old = ++count <= 5;
      return serve(request, is_old ? object_ : later, is_old ? "\"v1\"" : etag);
    };
    EXPECT_TRUE(bucket().get("a").value() == later);
  }
}

TEST_F(S3ReadTest, AnObjectThatIsAlwaysReplacedIsGivenUp) {
  std::atomic<int> count = 0;
  handler_ = [&](const Request& request) {
    return serve(request, object_, fmt::format("\"v{}\"", ++count));
  };
  const auto bytes = bucket().get("a");
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::unavailable);
  EXPECT_THAT(bytes.error().message, HasSubstr("replaced"));
}

TEST_F(S3ReadTest, AnEmptyObjectAndTheEndAreNothing) {
  EXPECT_EQ(bucket().get_range("a", 3050, 10).value(), "");
  EXPECT_EQ(bucket().get_range("a", 7, 0).value(), "");
  EXPECT_EQ(bucket().get_range("a", 3051, 10).error().code, Code::invalid);
  object_.clear();
  EXPECT_EQ(bucket().get("a").value(), "");
}

TEST_F(S3ReadTest, ManyRangesAreAskedForTogether) {
  const std::vector<ObjectRange> wanted = {{"a", 10, 20},  {"b", 3040, 100}, {"c", 0, 250},
                                           {"d", 3050, 1}, {"e", 9999, 1},   {"f", 5, 0}};
  const auto got = bucket().get_ranges(wanted);
  ASSERT_EQ(got.size(), wanted.size());
  EXPECT_EQ(got[0].value(), object_.substr(10, 20));
  EXPECT_EQ(got[1].value(), object_.substr(3040));
  EXPECT_EQ(got[2].value(), object_.substr(0, 250));
  EXPECT_EQ(got[3].value(), "");
  EXPECT_EQ(got[4].error().code, Code::invalid);
  EXPECT_EQ(got[5].value(), "");
}

TEST_F(S3ReadTest, RangesOfBadNamesAreRefusedAndTheOthersRead) {
  const std::vector<ObjectRange> wanted = {{"../a", 0, 1}, {"b", 0, 3}};
  const auto got = bucket().get_ranges(wanted);
  EXPECT_EQ(got[0].error().code, Code::invalid);
  EXPECT_EQ(got[1].value(), object_.substr(0, 3));
}

TEST_F(S3ReadTest, AServerThatTellsAnotherRangeIsNotBelieved) {
  for (const std::string range :
       {"bytes 1-100/3050", "bytes 0-99/*", "bytes 0-98/3050", "garbage", "bytes 0-99/50"}) {
    handler_ = [&](const Request&) {
      return answer(206, object_.substr(0, 100), {"ETag: \"v1\"", "Content-Range: " + range});
    };
    const auto bytes = bucket().get("a");
    ASSERT_FALSE(bytes) << range;
    EXPECT_EQ(bytes.error().code, Code::failed_precondition) << range;
  }
}

TEST_F(S3ReadTest, ASizeThatCannotBeIsNoCrash) {
  for (const std::string size : {"9223372036854775807", "1152921504606846976"}) {
    handler_ = [&](const Request& request) {
      if (request.header("range") != "bytes=0-99") return no(500, "InternalError");
      return answer(206, object_.substr(0, 100),
                    {"ETag: \"v1\"", "Content-Range: bytes 0-99/" + size});
    };
    const auto bytes = bucket().get("a");
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code, Code::exhausted);
  }
}

TEST_F(S3ReadTest, AStoreThatIgnoresRangesIsUnderstoodForSmallObjects) {
  handler_ = [](const Request&) { return answer(200, "0123456789", {"ETag: \"v\""}); };
  EXPECT_EQ(bucket().get("a").value(), "0123456789");
  EXPECT_EQ(bucket().get_range("a", 3, 4).value(), "3456");
  EXPECT_EQ(bucket().get_range("a", 11, 4).error().code, Code::invalid);
}

TEST_F(S3ReadTest, TheReasonIsAskedForWhereHeadCannotSayIt) {
  handler_ = [](const Request& request) {
    if (request.method == "HEAD") return Reply{"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"};
    return no(403, "RequestTimeTooSkewed");
  };
  EXPECT_EQ(bucket().stat("a").error().code, Code::failed_precondition);
}

class S3ReadToTest : public S3ReadTest {
 protected:
  Result<int64_t> read(int64_t offset, int64_t length) {
    taken_.assign(static_cast<size_t>(length), '.');
    return bucket().get_range_to("a", offset, length, [&](int64_t at, BytesView piece) -> Status {
      EXPECT_LE(at + std::ssize(piece), length);
      taken_.replace(static_cast<size_t>(at), piece.size(), piece);
      return {};
    });
  }

  std::string taken_;
};

TEST_F(S3ReadToTest, APartIsOneRequestAndComesAgainAfterACut) {
  EXPECT_EQ(read(500, 100).value(), 100);
  EXPECT_EQ(taken_, object_.substr(500, 100));
  EXPECT_THAT(ranges(), ElementsAre("bytes=500-599"));
  std::atomic<int> count = 0;
  handler_ = [&](const Request& request) {
    Reply reply = serve(request, object_, "\"v1\"");
    if (++count > 1) return reply;
    return Reply{reply.bytes.substr(0, reply.bytes.size() - 40), Reply::Then::close};
  };
  EXPECT_EQ(read(500, 100).value(), 100);
  EXPECT_EQ(taken_, object_.substr(500, 100));
  EXPECT_EQ(count, 2);
}

TEST_F(S3ReadToTest, OtherBytesThanWereAskedForAreNotBelieved) {
  for (const std::string range : {"bytes 501-600/3050", "garbage", "bytes 500-599/50"}) {
    handler_ = [&](const Request&) {
      return answer(206, object_.substr(0, 100), {"ETag: \"v1\"", "Content-Range: " + range});
    };
    EXPECT_EQ(read(500, 100).error().code, Code::failed_precondition) << range;
  }
  // More than that is not even written: it would be another part's.
  handler_ = [&](const Request&) {
    return answer(206, object_.substr(0, 101),
                  {"ETag: \"v1\"", "Content-Range: bytes 500-600/3050"});
  };
  EXPECT_EQ(read(500, 100).error().code, Code::exhausted);
  // A range that is not heeded, of an object that is no larger than asked for.
  handler_ = [](const Request&) { return answer(200, "0123456789", {"ETag: \"v\""}); };
  EXPECT_EQ(read(3, 4).value(), 4);
  EXPECT_EQ(taken_, "3456");
  handler_ = [](const Request&) { return no(403, "AccessDenied"); };
  EXPECT_EQ(read(3, 4).error().code, Code::permission_denied);
}

TEST_F(S3ReadTest, ADamagedPartIsAnErrorNotAnObject) {
  handler_ = [&](const Request& request) {
    Reply reply = serve(request, object_, "\"v1\"");
    if (request.header("range") == "bytes=500-599") {
      reply = answer(206, "short", {"ETag: \"v1\"", "Content-Range: bytes 500-504/3050"});
    }
    return reply;
  };
  EXPECT_FALSE(bucket().get("a"));
}

}  // namespace
}  // namespace tern
