#include "cloud/s3_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "cloud/s3_client.h"
#include "cloud/test_s3_bucket.h"
#include "core/hash.h"
#include "core/mutex.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class S3WriteTest : public S3BucketTest {
 protected:
  S3WriteTest() {
    options_ = {.part_bytes = int64_t{5} << 20, .in_flight_max = 4};
    for (size_t i = 0; i < large_.size(); i += 101) large_[i] = static_cast<char>(i >> 8);
  }

  // A server that takes an upload of parts; `complete` answers its end.
  Reply take_upload(const Request& request, const std::function<Reply(const Request&)>& complete) {
    if (request.method == "HEAD") return {"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"};
    if (request.target.ends_with("?uploads")) {
      return answer(200,
                    "<InitiateMultipartUploadResult><UploadId>u/1</UploadId>"
                    "</InitiateMultipartUploadResult>");
    }
    if (request.method == "DELETE") return answer(204);
    if (request.method == "POST") return complete(request);
    const size_t number = request.target.find("partNumber=") + 11;
    MutexLock lock(mutex_);
    parts_[std::stoi(request.target.substr(number))] = request.body;
    return answer(200, "", {fmt::format("ETag: \"part-{}\"", request.target[number])});
  }
  static Reply completed(const Request&) {
    // S3 sends blanks while it works.
    return answer(200,
                  "   \n<CompleteMultipartUploadResult><ETag>\"x\"</ETag>"
                  "</CompleteMultipartUploadResult>");
  }
  std::string assembled() {
    MutexLock lock(mutex_);
    std::string all;
    for (const auto& [number, part] : parts_) all += part;
    return all;
  }

  std::string large_ = std::string((size_t{11} << 20) + 7, 'x');
  Mutex mutex_;
  std::map<int, std::string> parts_ GUARDED_BY(mutex_);
};

TEST_F(S3WriteTest, CreateAsksForANameThatIsFreeAndSaysWhoItIs) {
  handler_ = [](const Request&) { return stored(); };
  EXPECT_TRUE(bucket().create("a", "x"));
  EXPECT_TRUE(bucket().create("a", "x"));
  EXPECT_TRUE(bucket().put("a", "x"));
  const std::vector<Request> requests = server_.requests();
  ASSERT_THAT(requests, SizeIs(3)) << "no request more than the write itself";
  EXPECT_EQ(requests[0].header("if-none-match"), "*");
  EXPECT_THAT(nonce_of(requests[0]), SizeIs(32));
  EXPECT_NE(nonce_of(requests[0]), nonce_of(requests[1]));
  EXPECT_THAT(requests[0].header("authorization"), HasSubstr(";x-amz-meta-ternnonce"));
  EXPECT_EQ(requests[2].header("if-none-match"), "");
  EXPECT_EQ(nonce_of(requests[2]), "");
}

// Refused at the first attempt, as when a proxy has sent it twice; and after a reply was lost.
TEST_F(S3WriteTest, ATakenNameIsOursIfItHasOurNonce) {
  for (const bool is_lost : {false, true}) {
    for (const std::string whose : {"ours", "another's", "nobody's", "gone"}) {
      std::atomic<int> puts = 0;
      handler_ = [&](const Request& request) {
        if (request.method == "PUT") {
          if (++puts == 1 && is_lost) return Reply{"", Reply::Then::close};
          return no(412, "PreconditionFailed");
        }
        const std::string nonce = nonce_of(server_.requests()[server_.requests().size() - 2]);
        if (whose == "ours") return serve(request, "mine", "\"1\"", nonce);
        if (whose == "another's") return serve(request, "mine", "\"1\"", std::string(32, 'a'));
        if (whose == "nobody's") return serve(request, "mine", "\"1\"");
        return Reply{"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"};
      };
      const Status created = bucket().create("a", "mine");
      EXPECT_EQ(created.has_value(), whose == "ours") << whose;
      EXPECT_EQ(created ? Code::already_exists : created.error().code, Code::already_exists);
      EXPECT_EQ(asked().back(), "HEAD /runs/a");
      EXPECT_EQ(puts, is_lost ? 2 : 1);
    }
  }
}

TEST_F(S3WriteTest, AllAttemptsHaveOneNonce) {
  std::atomic<int> puts = 0;
  handler_ = [&](const Request&) { return ++puts < 4 ? no(503, "SlowDown") : stored(); };
  EXPECT_TRUE(bucket().create("a", "x"));
  const std::vector<Request> requests = server_.requests();
  for (const Request& request : requests) EXPECT_EQ(nonce_of(request), nonce_of(requests[0]));
  EXPECT_THAT(requests, SizeIs(4));
}

TEST_F(S3WriteTest, ATakenNameThatMayNotBeLookedAtSaysWhichRightIsMissing) {
  handler_ = [](const Request& request) {
    if (request.method == "PUT") return no(412, "PreconditionFailed");
    if (request.method == "GET") return no(403, "AccessDenied");
    return Reply{"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"};
  };
  const Status created = bucket().create("a", "x");
  EXPECT_EQ(created.error().code, Code::permission_denied);
  EXPECT_THAT(created.error().message, HasSubstr("s3:GetObject"));
}

TEST_F(S3WriteTest, AConflictOfCreatorsIsTriedAgain) {
  std::atomic<int> puts = 0;
  handler_ = [&](const Request&) {
    return ++puts < 3 ? no(409, "ConditionalRequestConflict") : stored();
  };
  EXPECT_TRUE(bucket().create("a", "x"));
  EXPECT_EQ(puts, 3);
}

TEST_F(S3WriteTest, BytesDamagedOnTheWayAreSentAFewTimes) {
  handler_ = [](const Request&) { return no(400, "BadDigest"); };
  EXPECT_EQ(bucket().put("a", "x").error().code, Code::corrupt);
  EXPECT_THAT(asked(), SizeIs(4));
}

TEST_F(S3WriteTest, ALargeObjectIsSentInParts) {
  handler_ = [&](const Request& request) { return take_upload(request, completed); };
  ASSERT_TRUE(bucket().put("big", large_));
  EXPECT_TRUE(assembled() == large_);
  const Request last = server_.requests().back();
  EXPECT_EQ(last.method + " " + last.target, "POST /runs/big?uploadId=u%2F1");
  EXPECT_EQ(last.header("if-none-match"), "");
  EXPECT_THAT(last.body, HasSubstr("<Part><PartNumber>3</PartNumber><ETag>&quot;part-3&quot;</ETag>"
                                   "</Part></CompleteMultipartUpload>"));
  EXPECT_THAT(asked(), SizeIs(5));
}

TEST_F(S3WriteTest, PartsHaveTheirChecksumsWhereTheyAreAskedFor) {
  folder_.variables["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_supported";
  handler_ = [&](const Request& request) { return take_upload(request, completed); };
  ASSERT_TRUE(bucket().put("big", large_));
  const std::vector<Request> requests = server_.requests();
  EXPECT_EQ(requests.front().header("x-amz-checksum-algorithm"), "CRC32C");
  EXPECT_THAT(requests.back().body,
              HasSubstr(crc32c_text(BytesView(large_).substr(size_t{10} << 20))));
  EXPECT_EQ(requests.back().header("x-amz-content-sha256"), to_hex(sha256(requests.back().body)));
}

TEST_F(S3WriteTest, ALargeCreateLooksFirstAndAsksAgainAtTheEnd) {
  handler_ = [&](const Request& request) { return take_upload(request, completed); };
  ASSERT_TRUE(bucket().create("big", large_));
  EXPECT_EQ(asked().front(), "HEAD /runs/big");
  EXPECT_EQ(server_.requests().back().header("if-none-match"), "*");
  handler_ = [&](const Request& request) { return serve(request, "there", "\"1\""); };
  EXPECT_EQ(bucket().create("big", large_).error().code, Code::already_exists);
}

TEST_F(S3WriteTest, ALargeCreateThatLosesLeavesNoUpload) {
  handler_ = [&](const Request& request) {
    return take_upload(request, [](const Request&) { return no(412, "PreconditionFailed"); });
  };
  EXPECT_EQ(bucket().create("big", large_).error().code, Code::already_exists);
  EXPECT_EQ(asked().back(), "DELETE /runs/big?uploadId=u%2F1");
}

TEST_F(S3WriteTest, APartThatFailsEndsTheUpload) {
  handler_ = [&](const Request& request) {
    const bool second = request.target.find("partNumber=2") != std::string::npos;
    return second ? no(403, "AccessDenied") : take_upload(request, completed);
  };
  EXPECT_EQ(bucket().put("big", large_).error().code, Code::permission_denied);
  EXPECT_EQ(asked().back(), "DELETE /runs/big?uploadId=u%2F1");
}

TEST_F(S3WriteTest, ACompletionThatFailsAfterItsStatusIsSeen) {
  std::atomic<int> completions = 0;
  handler_ = [&](const Request& request) {
    return take_upload(request, [&](const Request& end) {
      if (++completions == 1) return no(200, "InternalError");
      return completed(end);
    });
  };
  EXPECT_TRUE(bucket().put("big", large_));
  EXPECT_EQ(completions, 2);
  handler_ = [&](const Request& request) {
    return take_upload(request, [](const Request&) { return no(200, "AccessDenied"); });
  };
  EXPECT_FALSE(bucket().put("big", large_));
  handler_ = [&](const Request& request) {
    return take_upload(request, [](const Request&) { return answer(200, "<html/>"); });
  };
  EXPECT_EQ(bucket().put("big", large_).error().code, Code::failed_precondition);
}

// Completed, but the answer was that of a second request: what a proxy makes of it, and what comes
// of a reply that was lost.
TEST_F(S3WriteTest, ACompletionIsOursIfTheObjectHasOurNonce) {
  struct Case {
    int status;
    std::string code;
    bool creates;
  };
  for (const Case& told : {Case{404, "NoSuchUpload", true}, Case{404, "NoSuchUpload", false},
                           Case{412, "PreconditionFailed", true}}) {
    for (const bool is_ours : {true, false}) {
      std::atomic<bool> is_completed = false;
      std::atomic<int> aborts = 0;
      std::string nonce;
      handler_ = [&](const Request& request) {
        if (request.target.ends_with("?uploads")) nonce = nonce_of(request);
        if (request.method == "DELETE") ++aborts;
        if (request.method == "HEAD" && is_completed) {
          return serve(request, large_, "\"1\"", is_ours ? nonce : std::string(32, 'a'));
        }
        return take_upload(request, [&](const Request&) {
          is_completed = true;
          return no(told.status, told.code);
        });
      };
      const Status written =
          told.creates ? bucket().create("big", large_) : bucket().put("big", large_);
      EXPECT_EQ(written.has_value(), is_ours) << told.code << told.creates;
      if (!written && told.creates) {
        EXPECT_EQ(written.error().code, Code::already_exists);
      }
      EXPECT_EQ(aborts == 0, is_ours);
      EXPECT_THAT(nonce, SizeIs(32));
    }
  }
}

TEST_F(S3WriteTest, AConflictAtTheEndBeginsTheUploadAgain) {
  std::atomic<int> completions = 0;
  handler_ = [&](const Request& request) {
    return take_upload(request, [&](const Request& end) {
      return ++completions == 1 ? no(409, "ConditionalRequestConflict") : completed(end);
    });
  };
  EXPECT_TRUE(bucket().create("big", large_));
  EXPECT_EQ(completions, 2);
  EXPECT_THAT(asked(), Contains("DELETE /runs/big?uploadId=u%2F1"));
}

TEST_F(S3WriteTest, AConflictWithOurOwnUploadIsSuccess) {
  std::string nonce;
  std::atomic<int> completions = 0;
  handler_ = [&](const Request& request) {
    if (request.target.ends_with("?uploads")) nonce = nonce_of(request);
    if (request.method == "HEAD" && completions > 0) return serve(request, large_, "\"1\"", nonce);
    return take_upload(request, [&](const Request&) {
      ++completions;
      return no(409, "ConditionalRequestConflict");
    });
  };
  EXPECT_TRUE(bucket().create("big", large_));
  EXPECT_EQ(completions, 1);
}

TEST_F(S3WriteTest, AnUploadWithoutAnIdIsNoStores) {
  handler_ = [](const Request&) {
    return answer(200, "<InitiateMultipartUploadResult></InitiateMultipartUploadResult>");
  };
  EXPECT_EQ(bucket().put("big", large_).error().code, Code::failed_precondition);
}

}  // namespace
}  // namespace tern
