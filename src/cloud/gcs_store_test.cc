#include "cloud/gcs_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "cloud/gcs_connection.h"
#include "cloud/test_gcs_bucket.h"
#include "cloud/whole_list.h"

namespace tern {
namespace {

using Request = ScriptedGcs::Request;
using Reply = ScriptedGcs::Reply;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GcsStore, PagesAreFollowedToTheEndAndSorted) {
  ScriptedGcs gcs([](const Request& request, int before) {
    if (before == 0) {
      return ScriptedGcs::reply(200,
                                R"({"nextPageToken":"a+/=","items":[{"name":"b","size":"2"}]})");
    }
    EXPECT_THAT(request.target, HasSubstr("&pageToken=a%2B%2F%3D"));
    return ScriptedGcs::reply(200, R"({"items":[{"name":"a","size":"1"}]})");
  });
  EXPECT_THAT(gcs.bucket().list("").value(), ElementsAre(ObjectInfo{"a", 1}, ObjectInfo{"b", 2}));
}

TEST(GcsStore, NamesThatAreNoneHereAreNotListed) {
  ScriptedGcs gcs([](const Request&, int) {
    return ScriptedGcs::reply(200, R"({"items":[{"name":"folder/","size":"0"},)"
                                   R"({"name":"a//b","size":"1"},{"name":"ok","size":"1"}]})");
  });
  EXPECT_THAT(gcs.bucket().list("").value(), ElementsAre(ObjectInfo{"ok", 1}));
  EXPECT_THAT(list_whole(gcs.bucket(), "").value(),
              ElementsAre(ObjectInfo{"a//b", 1}, ObjectInfo{"folder/", 0}, ObjectInfo{"ok", 1}));
}

TEST(GcsStore, APrefixMayEndInsideACharacter) {
  ScriptedGcs gcs([](const Request& request, int) {
    EXPECT_TRUE(request.target.ends_with("&prefix=x")) << request.target;
    return ScriptedGcs::reply(200,
                              "{\"items\":[{\"name\":\"x\xC3\xA9\",\"size\":\"1\"},"
                              "{\"name\":\"xa\",\"size\":\"1\"}]}");
  });
  EXPECT_THAT(gcs.bucket().list("x\xC3").value(), ElementsAre(ObjectInfo{"x\xC3\xA9", 1}));
}

TEST(GcsStore, AListingThatNeverEndsIsCorrupt) {
  ScriptedGcs gcs(
      [](const Request&, int) { return ScriptedGcs::reply(200, R"({"nextPageToken":"again"})"); });
  EXPECT_EQ(gcs.bucket().list("").error().code, Code::corrupt);
  EXPECT_EQ(gcs.requests().size(), 2U);
}

TEST(GcsStore, AListingOfTooManyPagesIsCorrupt) {
  ScriptedGcs gcs(
      [](const Request&, int before) {
        return ScriptedGcs::reply(200, fmt::format(R"({{"nextPageToken":"{}"}})", before));
      },
      {.pages_max = 3});
  const auto listed = gcs.bucket().list("p");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::corrupt);
  EXPECT_EQ(gcs.requests().size(), 3U);
}

// A service account's key for an emulator elsewhere: its token would be anybody's on the way.
TEST(GcsStore, ATokenIsNotSentInTheClear) {
  const std::string file = testing::TempDir() + "gcs_store_test.key.json";
  std::ofstream(file) << R"({"type":"authorized_user","client_id":"c","client_secret":"s",)"
                      << R"("refresh_token":"r"})";
  SimClock clock;
  const auto http = HttpClient::create({}).value();
  CloudTransport transport(*http, clock, {}, 1);
  const auto opened = [&](const std::string& endpoint, bool with_key) {
    return open_gcs({.kind = StoreAddress::Kind::gcs, .bucket = "bucket"},
                    {.variable = [&](const std::string& name) -> std::optional<std::string> {
                      if (name == "STORAGE_EMULATOR_HOST") return endpoint;
                      if (name == "GOOGLE_APPLICATION_CREDENTIALS" && with_key) return file;
                      return std::nullopt;
                    }},
                    transport, {});
  };
  for (const char* endpoint :
       {"http://remote:4443", "remote", "http://127.0.0.1.example", "http://127.0.0.1:1@remote"}) {
    const auto refused = opened(endpoint, /*with_key=*/true);
    ASSERT_FALSE(refused) << endpoint;
    EXPECT_EQ(refused.error().code, Code::failed_precondition);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("in the clear"), HasSubstr("https://"),
                                               HasSubstr("STORAGE_EMULATOR_HOST")));
    EXPECT_TRUE(opened(endpoint, /*with_key=*/false)) << endpoint;
  }
  for (const char* endpoint : {"https://remote:4443", "http://127.0.0.1:4443", "localhost:4443",
                               "http://[::1]:4443/", ""}) {
    EXPECT_TRUE(opened(endpoint, /*with_key=*/true)) << endpoint;
  }
  std::filesystem::remove(file);
}

TEST(GcsStore, RemovingTriesAllAndTellsTheFirstFailure) {
  ScriptedGcs gcs([](const Request& request, int) -> Reply {
    if (request.target.ends_with("/gone")) return ScriptedGcs::reply(404, "No such object: gone");
    if (request.target.ends_with("/kept"))
      return ScriptedGcs::complaint(403, "forbidden", "retention");
    return Reply{"HTTP/1.1 204 No Content\r\n\r\n"};
  });
  EXPECT_TRUE(gcs.bucket().remove("gone"));
  const std::vector<std::string> names = {"a", "gone", "kept", "/bad", "b"};
  const Status removed = gcs.bucket().remove_all(names);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::invalid);  // found before anything was sent
  EXPECT_EQ(gcs.requests().size(), 5U);
  const std::vector<std::string> legal = {"a", "kept"};
  EXPECT_EQ(gcs.bucket().remove_all(legal).error().code, Code::permission_denied);
}

TEST(GcsStore, InABucketThatIsNotThereNothingIsRemoved) {
  ScriptedGcs gcs([](const Request&, int) {
    return ScriptedGcs::complaint(404, "notFound", "The specified bucket does not exist.");
  });
  for (const Error& error : {gcs.bucket().remove("x").error(), gcs.bucket().list("").error(),
                             gcs.bucket().put("x", "y").error(), gcs.bucket().get("x").error()}) {
    EXPECT_EQ(error.code, Code::not_found);
    EXPECT_THAT(error.message, HasSubstr("no bucket gs://bucket"));
  }
}

TEST(GcsStore, ABucketThatIsThereIsMadeAgainOnlyIfItIsOurs) {
  const auto scripted = [](int listing) {
    return [listing](const Request& request, int) {
      if (request.method == "POST")
        return ScriptedGcs::complaint(409, "conflict", "name is not available");
      return listing == 200 ? ScriptedGcs::reply(200, "{}")
                            : ScriptedGcs::complaint(listing, "forbidden", "no");
    };
  };
  ScriptedGcs ours(scripted(200));
  EXPECT_TRUE(ours.bucket().make_bucket());
  ScriptedGcs theirs(scripted(403));
  EXPECT_EQ(theirs.bucket().make_bucket().error().code, Code::permission_denied);
}

TEST(GcsStore, ThrottlingIsWaitedOut) {
  ScriptedGcs gcs([](const Request& request, int before) {
    if (before < 3) return ScriptedGcs::complaint(429, "rateLimitExceeded", "slow down");
    return ScriptedGcs::serve(request, "hello");
  });
  EXPECT_EQ(gcs.bucket().get("x").value(), "hello");
}

TEST(GcsStore, WhatStaysBrokenIsUnavailableInTheEnd) {
  ScriptedGcs gcs([](const Request&, int) {
    return ScriptedGcs::complaint(503, "backendError", "Backend Error");
  });
  const auto got = gcs.bucket().get("x");
  EXPECT_EQ(got.error().code, Code::unavailable);
  EXPECT_THAT(got.error().message, HasSubstr("503"));
}

TEST(GcsStore, ARefusedTokenIsReplacedAndTheRequestSentAgainOnce) {
  std::atomic<int> tokens = 0;
  std::string accepted = "Bearer token2";
  TestWebServer server([&](const Request& request) {
    if (request.target == "/token") {
      return ScriptedGcs::reply(
          200, fmt::format(R"({{"access_token":"token{}","expires_in":3600}})", ++tokens));
    }
    return request.header("authorization") == accepted
               ? ScriptedGcs::reply(200, "{}")
               : ScriptedGcs::complaint(401, "authError", "Invalid Credentials");
  });
  SimClock clock;
  const auto http = std::move(HttpClient::create({})).value();
  CloudTransport transport(*http, clock, {}, 4);
  GcsConnection connection(server.url(""), "bucket",
                           std::make_unique<GoogleCredentials>(
                               GoogleIdentity{.kind = GoogleIdentity::Kind::authorized_user,
                                              .source = "the test's login",
                                              .token_url = server.url("/token")},
                               "", clock),
                           transport);
  EXPECT_EQ(connection.send({.path = "/storage/v1/b/bucket/o"})->status, 200);
  EXPECT_EQ(server.requests().size(), 4U);

  accepted = "none";
  const auto refused = connection.send({.path = "/storage/v1/b/bucket/o"});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(tokens, 3);
  const Error error = connection.error_of(*refused, kGcsList);
  EXPECT_EQ(error.code, Code::permission_denied);
  EXPECT_THAT(error.message, HasSubstr("the test's login"));
  EXPECT_THAT(error.message, testing::Not(HasSubstr("token")));
}

TEST(GcsStore, SaysWithWhatItComes) {
  ScriptedGcs gcs([](const Request&, int) { return ScriptedGcs::reply(200); });
  EXPECT_THAT(gcs.bucket().credentials().value(), HasSubstr("STORAGE_EMULATOR_HOST"));
}

}  // namespace
}  // namespace tern
