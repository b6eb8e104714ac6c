#include "cloud/gcs_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud/test_gcs_bucket.h"

namespace tern {
namespace {

using Request = ScriptedGcs::Request;
using Reply = ScriptedGcs::Reply;
using testing::EndsWith;
using testing::HasSubstr;

Bytes pattern(size_t size) {
  Bytes bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 257);
  return bytes;
}

TEST(GcsRead, ASmallObjectIsOneRequest) {
  ScriptedGcs gcs([](const Request& request, int) { return ScriptedGcs::serve(request, "hello"); });
  EXPECT_EQ(gcs.bucket().get("a b/+%").value(), "hello");
  ASSERT_EQ(gcs.requests().size(), 1U);
  EXPECT_EQ(gcs.requests()[0].target, "/storage/v1/b/bucket/o/a%20b%2F%2B%25?alt=media");
  EXPECT_EQ(gcs.requests()[0].header("accept-encoding"), "gzip");
  EXPECT_EQ(gcs.requests()[0].header("authorization"), "");
}

TEST(GcsRead, ALargeObjectComesInPartsOfOneGeneration) {
  const Bytes bytes = pattern(10'500);
  ScriptedGcs gcs([&](const Request& request, int) { return ScriptedGcs::serve(request, bytes); },
                  {.part_bytes = 1000, .in_flight_max = 3});
  EXPECT_TRUE(gcs.bucket().get("big").value() == bytes);
  const auto requests = gcs.requests();
  ASSERT_EQ(requests.size(), 11U);
  for (size_t i = 1; i < requests.size(); ++i) {
    EXPECT_THAT(requests[i].target, EndsWith("&generation=7"));
  }
  EXPECT_TRUE(gcs.bucket().get_range("big", 500, 5001).value() == bytes.substr(500, 5001));
}

TEST(GcsRead, AnObjectThatIsReplacedMeanwhileIsReadAnew) {
  const Bytes old_bytes(3000, 'o');
  const Bytes new_bytes(3500, 'n');
  ScriptedGcs gcs(
      [&](const Request& request, int before) {
        if (before == 0) return ScriptedGcs::serve(request, old_bytes, "7");
        const bool wants_old = request.target.ends_with("generation=7");
        if (wants_old) return ScriptedGcs::reply(404, "No such object: bucket/x");
        return ScriptedGcs::serve(request, new_bytes, "8");
      },
      {.part_bytes = 1000, .in_flight_max = 1});
  EXPECT_TRUE(gcs.bucket().get("x").value() == new_bytes);
}

TEST(GcsRead, AnObjectThatIsReplacedAllTheTimeIsUnavailable) {
  const Bytes bytes(3000, 'o');
  ScriptedGcs gcs(
      [&](const Request& request, int) {
        if (request.target.find("generation=") != std::string::npos)
          return ScriptedGcs::reply(404, "No such object: bucket/x");
        return ScriptedGcs::serve(request, bytes);
      },
      {.part_bytes = 1000, .in_flight_max = 2});
  const auto got = gcs.bucket().get("x");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::unavailable);
  EXPECT_THAT(got.error().message, HasSubstr("replaced faster than it is read"));
}

TEST(GcsRead, ADamagedObjectIsReadAgainAndThenCorrupt) {
  const auto damaged = [](const Request&, int) {
    return ScriptedGcs::reply(
        206, "hellO",
        {"X-Goog-Generation: 7", "X-Goog-Hash: crc32c=mnG7TA==", "Content-Range: bytes 0-4/5"});
  };
  ScriptedGcs always(damaged);
  EXPECT_EQ(always.bucket().get("x").error().code, Code::corrupt);
  EXPECT_EQ(always.requests().size(), 2U);
  ScriptedGcs once([&](const Request& request, int before) {
    return before == 0 ? damaged(request, 0) : ScriptedGcs::serve(request, "hello");
  });
  EXPECT_EQ(once.bucket().get("x").value(), "hello");
}

TEST(GcsRead, AnEmptyObjectMayAnswerThatTheRangeIsOutside) {
  ScriptedGcs with([](const Request&, int) {
    return ScriptedGcs::reply(416, "", {"Content-Range: bytes */0"});
  });
  EXPECT_EQ(with.bucket().get("x").value(), "");
  ScriptedGcs without([](const Request& request, int) {
    if (request.target.find("alt=media") != std::string::npos) return ScriptedGcs::reply(416);
    return ScriptedGcs::reply(200, ScriptedGcs::described("x", ""));
  });
  EXPECT_EQ(without.bucket().get("x").value(), "");
  EXPECT_EQ(without.bucket().get_range("x", 1, 1).error().code, Code::invalid);
}

TEST(GcsRead, AServerThatIgnoresRangesIsCut) {
  ScriptedGcs gcs([](const Request&, int) {
    return ScriptedGcs::reply(200, "0123456789", {"X-Goog-Generation: 7"});
  });
  EXPECT_EQ(gcs.bucket().get_range("x", 3, 4).value(), "3456");
  EXPECT_EQ(gcs.bucket().get_range("x", 8, 100).value(), "89");
  EXPECT_EQ(gcs.bucket().get_range("x", 10, 1).value(), "");
  EXPECT_EQ(gcs.bucket().get_range("x", 11, 1).error().code, Code::invalid);
}

TEST(GcsRead, ManyRangesAreAnsweredInTheirOrder) {
  const Bytes bytes = pattern(5000);
  ScriptedGcs gcs([&](const Request& request, int) -> Reply {
    if (request.target.find("absent") != std::string::npos)
      return ScriptedGcs::reply(404, "No such object: bucket/absent");
    return ScriptedGcs::serve(request, bytes);
  });
  const std::vector<ObjectRange> ranges = {
      {"x", 100, 50}, {"absent", 0, 1}, {"x", 4990, 100}, {"x", 6000, 1}, {"x", -1, 1}};
  const auto all = gcs.bucket().get_ranges(ranges);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_TRUE(all[0].value() == bytes.substr(100, 50));
  EXPECT_EQ(all[1].error().code, Code::not_found);
  EXPECT_TRUE(all[2].value() == bytes.substr(4990));
  EXPECT_EQ(all[3].error().code, Code::invalid);
  EXPECT_EQ(all[4].error().code, Code::invalid);
}

TEST(GcsRead, APageForABrowserIsNoObject) {
  ScriptedGcs gcs(
      [](const Request&, int) { return ScriptedGcs::reply(200, "<html>login</html>"); });
  for (const Error& error : {gcs.bucket().get("x").error(), gcs.bucket().stat("x").error(),
                             gcs.bucket().list("").error(), gcs.bucket().put("x", "y").error()}) {
    EXPECT_EQ(error.code, Code::failed_precondition) << error.message;
    EXPECT_THAT(error.message, HasSubstr("not an object store"));
  }
}

TEST(GcsRead, APieceOtherThanAskedForIsNone) {
  const auto take = [](int status, const std::string& body, std::vector<HttpHeader> headers) {
    headers.push_back({"x-goog-generation", "7"});
    HttpAnswer answer{.status = status, .headers = std::move(headers), .body = body};
    return take_gcs_piece(answer, 10, 5);
  };
  EXPECT_TRUE(take(206, "abcde", {{"Content-Range", "bytes 10-14/100"}}));
  EXPECT_TRUE(take(206, "abc", {{"Content-Range", "bytes 10-12/13"}}));
  for (const char* range : {"bytes 9-13/100", "bytes 10-13/100", "bytes 10-14/*", "bytes */100",
                            "bytes 10-14/12", "", "bytes 10-99999999999999999999/100"}) {
    EXPECT_FALSE(take(206, "abcde", {{"Content-Range", range}})) << range;
  }
  EXPECT_FALSE(take(206, "abcdef", {{"Content-Range", "bytes 10-15/100"}}));
  HttpAnswer without{
      .status = 206, .headers = {{"Content-Range", "bytes 10-14/100"}}, .body = "abcde"};
  EXPECT_FALSE(take_gcs_piece(without, 10, 5));
}

}  // namespace
}  // namespace tern
