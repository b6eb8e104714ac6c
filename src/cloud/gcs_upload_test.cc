#include "cloud/gcs_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud/test_gcs_bucket.h"

namespace tern {
namespace {

using Request = ScriptedGcs::Request;
using Reply = ScriptedGcs::Reply;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kUnit = 256 << 10;
const BucketOptions kSmallParts{.part_bytes = kUnit, .in_flight_max = 2};

// A store that knows one unfinished upload; the test may spoil its answers.
struct Uploads {
  Bytes bytes;
  std::string stored;
  std::vector<std::string> ranges;  // the Content-Range of each PUT

  Reply answer(const Request& request) {
    if (request.method == "POST") {
      stored.clear();
      return ScriptedGcs::reply(200, "",
                                {"Location: http://elsewhere.example/session?id=TOPSECRET"});
    }
    const std::string range = request.header("content-range");
    ranges.push_back(range);
    if (!range.starts_with("bytes *")) {
      const size_t first = std::stoull(range.substr(6));
      if (first <= stored.size()) stored = stored.substr(0, first) + request.body;
    }
    return progress();
  }
  Reply progress() const {
    if (stored.size() == bytes.size())
      return ScriptedGcs::reply(200, ScriptedGcs::described("big", stored));
    if (stored.empty()) return ScriptedGcs::reply(308);
    return ScriptedGcs::reply(308, "", {fmt::format("Range: bytes=0-{}", stored.size() - 1)});
  }
};

TEST(GcsUpload, ASmallObjectIsOneRequestWithItsChecksum) {
  ScriptedGcs gcs([](const Request&, int) {
    return ScriptedGcs::reply(200, ScriptedGcs::described("a/b", "hello"));
  });
  ASSERT_TRUE(gcs.bucket().put("a/b", "hello"));
  ASSERT_EQ(gcs.requests().size(), 1U);
  const Request request = gcs.requests()[0];
  EXPECT_EQ(request.target, "/upload/storage/v1/b/bucket/o?uploadType=multipart&name=a%2Fb");
  EXPECT_THAT(request.body, HasSubstr(R"("crc32c":"mnG7TA==")"));
  EXPECT_THAT(request.body, HasSubstr("\r\n\r\nhello\r\n--"));
}

TEST(GcsUpload, TheBoundaryIsNotInTheBytes) {
  const MultipartBody plain = make_multipart_body("{}", "hello");
  const std::string boundary = plain.content_type.substr(plain.content_type.find('=') + 1);
  const MultipartBody other = make_multipart_body("{}", "x\r\n--" + boundary + "--\r\n");
  EXPECT_THAT(other.content_type, Not(HasSubstr(boundary)));
}

TEST(GcsUpload, ACreateSaysWhoItIs) {
  ScriptedGcs gcs([](const Request&, int) {
    return ScriptedGcs::reply(200, ScriptedGcs::described("a", "x"));
  });
  ASSERT_TRUE(gcs.bucket().create("a", "x"));
  ASSERT_TRUE(gcs.bucket().create("a", "x"));
  ASSERT_TRUE(gcs.bucket().put("a", "x"));
  const auto requests = gcs.requests();
  ASSERT_EQ(requests.size(), 3U) << "no request more than the write itself";
  EXPECT_THAT(requests[0].target, HasSubstr("&ifGenerationMatch=0"));
  EXPECT_EQ(ScriptedGcs::nonce_of(requests[0]).size(), 32U);
  EXPECT_NE(ScriptedGcs::nonce_of(requests[0]), ScriptedGcs::nonce_of(requests[1]));
  EXPECT_EQ(ScriptedGcs::nonce_of(requests[2]), "");
}

// Refused at the first attempt, as when a proxy has sent it twice; and after a reply was lost.
TEST(GcsUpload, ATakenNameIsOursIfItHasOurNonce) {
  for (const bool is_lost : {false, true}) {
    for (const std::string whose : {"ours", "another's", "nobody's", "gone"}) {
      std::string nonce;
      ScriptedGcs gcs([&](const Request& request, int before) {
        if (request.method == "POST") {
          nonce = ScriptedGcs::nonce_of(request);
          if (before == 0 && is_lost) return ScriptedGcs::lost();
          return ScriptedGcs::complaint(412, "conditionNotMet", "did not hold");
        }
        if (whose == "gone") return ScriptedGcs::complaint(404, "notFound", "No such object");
        if (whose == "another's") nonce = std::string(32, 'a');
        if (whose == "nobody's") nonce = "";
        return ScriptedGcs::reply(200, ScriptedGcs::described("x", "mine", nonce));
      });
      const Status created = gcs.bucket().create("x", "mine");
      EXPECT_EQ(created.has_value(), whose == "ours") << whose;
      EXPECT_EQ(created ? Code::already_exists : created.error().code, Code::already_exists);
      EXPECT_EQ(gcs.requests().size(), is_lost ? 3U : 2U);
      EXPECT_THAT(gcs.requests().back().target,
                  HasSubstr("fields=name,size,generation,crc32c,meta"));
    }
  }
}

TEST(GcsUpload, ATakenNameThatMayNotBeLookedAtSaysWhichRightIsMissing) {
  ScriptedGcs gcs([](const Request& request, int) {
    return request.method == "POST" ? ScriptedGcs::complaint(412, "conditionNotMet", "no")
                                    : ScriptedGcs::complaint(403, "forbidden", "no access");
  });
  const Status created = gcs.bucket().create("x", "mine");
  EXPECT_EQ(created.error().code, Code::permission_denied);
  EXPECT_THAT(created.error().message, HasSubstr("storage.objects.get"));
}

TEST(GcsUpload, ADamagedUploadIsSentAgainAndThenCorrupt) {
  const auto complaint = [](const Request&, int) {
    return ScriptedGcs::complaint(400, "invalid", "Provided CRC32C doesn't match");
  };
  ScriptedGcs always(complaint);
  EXPECT_EQ(always.bucket().put("x", "hello").error().code, Code::corrupt);
  EXPECT_EQ(always.requests().size(), 3U);
  ScriptedGcs once([&](const Request& request, int before) {
    return before == 0 ? complaint(request, 0)
                       : ScriptedGcs::reply(200, ScriptedGcs::described("x", "hello"));
  });
  EXPECT_TRUE(once.bucket().put("x", "hello"));
}

TEST(GcsUpload, AnotherChecksumInTheAnswerIsCorruptAndACreatedNameIsFreedAgain) {
  ScriptedGcs gcs([](const Request& request, int) {
    if (request.method == "DELETE") return Reply{"HTTP/1.1 204 No Content\r\n\r\n"};
    return ScriptedGcs::reply(200, ScriptedGcs::described("x", "hellO"));
  });
  EXPECT_EQ(gcs.bucket().put("x", "hello").error().code, Code::corrupt);
  EXPECT_EQ(gcs.requests().size(), 1U);
  EXPECT_EQ(gcs.bucket().create("x", "hello").error().code, Code::corrupt);
  EXPECT_EQ(gcs.requests().back().target, "/storage/v1/b/bucket/o/x?ifGenerationMatch=7");
}

TEST(GcsUpload, ALargeObjectGoesInParts) {
  Uploads uploads{.bytes = Bytes(2 * kUnit + 10, 'x')};
  ScriptedGcs gcs([&](const Request& request, int) { return uploads.answer(request); },
                  kSmallParts);
  const Status put = gcs.bucket().put("big", uploads.bytes);
  ASSERT_TRUE(put) << put.error().to_string();
  EXPECT_THAT(uploads.ranges, ElementsAre("bytes 0-262143/524298", "bytes 262144-524287/524298",
                                          "bytes 524288-524297/524298"));
  const auto requests = gcs.requests();
  EXPECT_EQ(requests[0].header("x-upload-content-length"), "524298");
  EXPECT_EQ(requests[1].target, "/session?id=TOPSECRET") << "on our endpoint, not another";
}

TEST(GcsUpload, AfterACutItAsksHowMuchArrivedAndGoesOnThere) {
  Uploads uploads{.bytes = Bytes(4 * kUnit, 'x')};
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        const Reply reply = uploads.answer(request);
        return before == 2 || before == 5 ? ScriptedGcs::lost() : reply;
      },
      kSmallParts);
  ASSERT_TRUE(gcs.bucket().put("big", uploads.bytes));
  EXPECT_THAT(uploads.ranges, ElementsAre("bytes 0-262143/1048576", "bytes 262144-524287/1048576",
                                          "bytes */1048576", "bytes 524288-786431/1048576",
                                          "bytes 786432-1048575/1048576", "bytes */1048576"));
}

TEST(GcsUpload, APartThatWasStoredOnlyInPartIsCompleted) {
  Uploads uploads{.bytes = Bytes(3 * kUnit, 'x')};
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        Reply reply = uploads.answer(request);
        if (before != 1) return reply;
        uploads.stored.resize(1000);
        return uploads.progress();
      },
      kSmallParts);
  ASSERT_TRUE(gcs.bucket().put("big", uploads.bytes));
  EXPECT_EQ(uploads.ranges[1], "bytes 1000-263143/786432");
}

TEST(GcsUpload, AForgottenUploadIsBegunAgain) {
  Uploads uploads{.bytes = Bytes(3 * kUnit, 'x')};
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        return before == 2 ? ScriptedGcs::reply(410) : uploads.answer(request);
      },
      kSmallParts);
  ASSERT_TRUE(gcs.bucket().put("big", uploads.bytes));
  ScriptedGcs never(
      [](const Request& request, int) {
        return request.method == "POST"
                   ? ScriptedGcs::reply(200, "", {"Location: http://x.example/s"})
                   : ScriptedGcs::reply(404);
      },
      kSmallParts);
  EXPECT_EQ(never.bucket().put("big", uploads.bytes).error().code, Code::unavailable);
}

// Finished, and forgotten before we heard of it: the next session finds the name taken.
TEST(GcsUpload, AForgottenUploadThatWasFinishedIsOursByItsNonce) {
  Uploads uploads{.bytes = Bytes(3 * kUnit, 'x')};
  std::string nonce;
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        if (request.method == "GET") {
          return ScriptedGcs::reply(200, ScriptedGcs::described("big", uploads.bytes, nonce));
        }
        if (before == 0) nonce = ScriptedGcs::nonce_of(request);
        if (before == 3) return ScriptedGcs::reply(410);
        if (before == 4) return ScriptedGcs::complaint(412, "conditionNotMet", "did not hold");
        return uploads.answer(request);
      },
      kSmallParts);
  const Status created = gcs.bucket().create("big", uploads.bytes);
  EXPECT_TRUE(created) << created.error().to_string();
  EXPECT_EQ(nonce.size(), 32U);
  EXPECT_EQ(gcs.requests().size(), 6U);
}

// As long as one request may take, with a wait after each attempt.
TEST(GcsUpload, AnUploadThatDoesNotMoveEndsAtTheDeadline) {
  std::atomic<bool> moves_in_the_end = true;
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        if (request.method == "POST") {
          return ScriptedGcs::reply(200, "", {"Location: http://x.example/s?id=TOPSECRET"});
        }
        const bool is_done = moves_in_the_end && before == 12;
        return is_done
                   ? ScriptedGcs::reply(200, ScriptedGcs::described("big", Bytes(3 * kUnit, 'x')))
                   : ScriptedGcs::reply(308);
      },
      kSmallParts);
  const Status patient = gcs.bucket().put("big", Bytes(3 * kUnit, 'x'));
  EXPECT_TRUE(patient) << patient.error().to_string();
  for (const Request& request : gcs.requests()) {
    if (request.method == "PUT") {
      EXPECT_EQ(request.header("content-range"), "bytes 0-262143/786432");
    }
  }
  moves_in_the_end = false;
  const Status put = gcs.bucket().put("big", Bytes(3 * kUnit, 'x'));
  EXPECT_EQ(put.error().code, Code::unavailable);
  EXPECT_THAT(put.error().message, HasSubstr("does not get past byte 0"));
  EXPECT_THAT(put.error().message, Not(HasSubstr("TOPSECRET")));
  EXPECT_LT(gcs.requests().size(), 100U) << "asked without a pause";
}

TEST(GcsUpload, AnUploadThatGoesBackEnds) {
  Uploads uploads{.bytes = Bytes(3 * kUnit, 'x')};
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        const Reply reply = uploads.answer(request);
        return before % 2 == 0 && before > 0 ? ScriptedGcs::reply(308) : reply;
      },
      kSmallParts);
  EXPECT_EQ(gcs.bucket().put("big", uploads.bytes).error().code, Code::unavailable);
  EXPECT_EQ(gcs.requests().size(), 3U);
}

TEST(GcsUpload, GarbageInALargeUploadIsCalledThat) {
  for (const std::string location :
       {"X-Other: 1", "Location: nowhere", "Location: http://x.example"}) {
    ScriptedGcs gcs([&](const Request&, int) { return ScriptedGcs::reply(200, "", {location}); },
                    kSmallParts);
    EXPECT_EQ(gcs.bucket().put("big", Bytes(3 * kUnit, 'x')).error().code,
              Code::failed_precondition);
  }
  for (const char* range : {"bytes=0-9999999", "bytes=1-5", "bytes=0-", "bytes=0--5", "items=0-5",
                            "bytes=0-9223372036854775807"}) {
    ScriptedGcs gcs(
        [&](const Request& request, int) {
          return request.method == "POST"
                     ? ScriptedGcs::reply(200, "", {"Location: http://x.example/s"})
                     : ScriptedGcs::reply(308, "", {std::string("Range: ") + range});
        },
        kSmallParts);
    EXPECT_EQ(gcs.bucket().put("big", Bytes(3 * kUnit, 'x')).error().code,
              Code::failed_precondition)
        << range;
  }
}

}  // namespace
}  // namespace tern
