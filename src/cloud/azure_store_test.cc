// Against a server that says what each test tells it to. Against a real emulator the store passes
// the whole contract, in tests/.
#include "cloud/azure_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>

#include "cloud/shared_key.h"
#include "cloud/whole_list.h"
#include "core/crypto.h"
#include "core/test_web_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Request = TestWebServer::Request;
using Reply = TestWebServer::Reply;

constexpr char kKey[] = "c2VjcmV0IGtleQ==";

// As Azure answers: with its own headers.
Reply azure(int status, const std::string& body = "", std::vector<std::string> headers = {}) {
  headers.push_back("x-ms-request-id: 1");
  return {.bytes = TestWebServer::answer(status, body, headers)};
}

Reply refusal(int status, const std::string& code) {
  return azure(status, "", {"x-ms-error-code: " + code});
}

std::string nonce_of(const Request& request) { return request.header("x-ms-meta-ternnonce"); }

// To a HEAD.
Reply head_of(int64_t size, const std::string& nonce) {
  const std::string metadata = nonce.empty() ? "" : "x-ms-meta-TernNonce: " + nonce + "\r\n";
  return {.bytes = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}"
                               "x-ms-request-id: 1\r\n\r\n",
                               size, metadata)};
}

// To a request for a range of `body`.
Reply range_of(const Request& request, const std::string& body, const std::string& etag = "\"1\"",
               std::vector<std::string> headers = {}) {
  const std::string range = request.header("range").substr(6);
  const size_t first = std::stoull(range);
  const size_t last =
      std::min<size_t>(std::stoull(range.substr(range.find('-') + 1)), body.size() - 1);
  if (first >= body.size()) return refusal(416, "InvalidRange");
  headers.push_back(fmt::format("Content-Range: bytes {}-{}/{}", first, last, body.size()));
  headers.push_back("ETag: " + etag);
  return azure(206, body.substr(first, last - first + 1), headers);
}

class AzureStoreTest : public testing::Test {
 protected:
  Reply answer(const Request& request) {
    const int now = asked_++;
    return reply_ ? reply_(request, now) : azure(500);
  }

  template <typename T>
  Error error_of(const Result<T>& result) {
    EXPECT_FALSE(result);
    const Error error = result ? Error{} : result.error();
    EXPECT_THAT(error.message, Not(HasSubstr(kKey)));
    return error;
  }

  static CloudSurroundings surroundings(const std::string& endpoint) {
    return {.variable = [endpoint](const std::string& name) -> std::optional<std::string> {
      if (name == "AZURE_STORAGE_KEY") return kKey;
      if (name == "AZURE_STORAGE_BLOB_ENDPOINT") return endpoint;
      return std::nullopt;
    }};
  }

  // What the server does with its n-th request.
  std::function<Reply(const Request&, int)> reply_;
  std::atomic<int> asked_ = 0;
  TestWebServer server_{[this](const Request& request) { return answer(request); }};
  SimClock clock_;
  std::unique_ptr<HttpClient> http_ = HttpClient::create({}).value();
  CloudTransport transport_{*http_, clock_, {}, 4};
  std::unique_ptr<Bucket> store_ =
      open_azure({.kind = StoreAddress::Kind::azure, .account = "acc", .bucket = "con"},
                 surroundings(server_.url("")), transport_,
                 {.part_bytes = 1000, .in_flight_max = 4})
          .value();
};

TEST_F(AzureStoreTest, AnObjectIsPutSignedAndWithItsChecksum) {
  reply_ = [](const Request&, int) { return azure(201); };
  ASSERT_TRUE(store_->put("a b/\xC3\xA9", "hello"));
  const Request sent = server_.requests().at(0);
  EXPECT_EQ(sent.method, "PUT");
  EXPECT_EQ(sent.target, "/acc/con/a%20b/%C3%A9");
  EXPECT_EQ(sent.body, "hello");
  EXPECT_EQ(sent.header("x-ms-blob-type"), "BlockBlob");
  EXPECT_EQ(sent.header("content-md5"), base64(md5("hello")));
  EXPECT_EQ(sent.header("x-ms-version"), "2021-12-02");
  EXPECT_THAT(sent.header("authorization"), testing::StartsWith("SharedKey acc:"));
  EXPECT_EQ(sent.header("if-none-match"), "");
  ASSERT_TRUE(store_->create("a", ""));
  EXPECT_EQ(server_.requests().at(1).header("if-none-match"), "*");
}

TEST_F(AzureStoreTest, ACreateSaysWhoItIsAndSignsThat) {
  reply_ = [](const Request&, int) { return azure(201); };
  ASSERT_TRUE(store_->create("a", "x"));
  ASSERT_TRUE(store_->create("a", "x"));
  ASSERT_TRUE(store_->put("a", "x"));
  const std::vector<Request> sent = server_.requests();
  ASSERT_EQ(sent.size(), 3u) << "no request more than the write itself";
  EXPECT_EQ(nonce_of(sent[0]).size(), 32u);
  EXPECT_NE(nonce_of(sent[0]), nonce_of(sent[1]));
  EXPECT_EQ(nonce_of(sent[2]), "");
  HttpRequest signed_request{.method = "PUT", .url = server_.url(sent[0].target), .body = "x"};
  for (const auto& [name, value] : sent[0].headers) {
    if (name != "authorization") signed_request.headers.push_back({name, value});
  }
  EXPECT_THAT(shared_key_text("acc", signed_request),
              HasSubstr("\nx-ms-meta-ternnonce:" + nonce_of(sent[0]) + "\n"));
  sign_with_shared_key({"acc", decode_base64(kKey).value()}, signed_request);
  EXPECT_EQ(signed_request.headers.back().value, sent[0].header("authorization"));
}

TEST_F(AzureStoreTest, ATakenNameIsAlreadyThereInAllItsForms) {
  for (const Reply& reply : {refusal(409, "BlobAlreadyExists"), refusal(412, "ConditionNotMet"),
                             refusal(403, "UnauthorizedBlobOverwrite")}) {
    for (const std::string nonce : {"", "0123456789abcdef0123456789abcdef"}) {
      reply_ = [&](const Request& request, int) {
        return request.method == "HEAD" ? head_of(4, nonce) : reply;
      };
      EXPECT_EQ(error_of(store_->create("a", "x")).code, Code::already_exists);
    }
  }
  reply_ = [&](const Request&, int) { return refusal(409, "BlobImmutableDueToPolicy"); };
  EXPECT_EQ(error_of(store_->create("a", "x")).code, Code::permission_denied);
  reply_ = [&](const Request& request, int) {
    return request.method == "HEAD" ? refusal(403, "AuthorizationPermissionMismatch")
                                    : refusal(409, "BlobAlreadyExists");
  };
  EXPECT_EQ(error_of(store_->create("a", "x")).code, Code::permission_denied);
}

// Refused at the first attempt, as when a proxy has sent it twice; and after a reply was lost.
TEST_F(AzureStoreTest, ATakenNameIsOursIfItHasOurNonce) {
  for (const bool is_lost : {false, true}) {
    asked_ = 0;
    reply_ = [&](const Request& request, int now) -> Reply {
      if (now == 0 && is_lost) return {.bytes = "", .then = Reply::Then::close};
      if (request.method == "HEAD") {
        return head_of(4, nonce_of(server_.requests()[server_.requests().size() - 2]));
      }
      return refusal(409, "BlobAlreadyExists");
    };
    const Status created = store_->create("a", "mine");
    EXPECT_TRUE(created) << created.error().to_string();
    EXPECT_EQ(asked_, is_lost ? 3 : 2);
  }
}

TEST_F(AzureStoreTest, ALargeObjectIsSentInBlocksThatNoOtherWriterCanReplace) {
  const std::string body(3500, 'x');
  reply_ = [&](const Request& request, int) {
    return request.method == "HEAD" ? refusal(404, "BlobNotFound") : azure(201);
  };
  ASSERT_TRUE(store_->create("big", body));
  const std::vector<Request> sent = server_.requests();
  ASSERT_EQ(sent.size(), 6u);
  size_t bytes = 0;
  std::vector<std::string> ids;
  for (size_t i = 1; i < 5; ++i) {
    bytes += sent[i].body.size();
    EXPECT_EQ(sent[i].header("content-md5"), base64(md5(sent[i].body)));
    EXPECT_EQ(sent[i].header("if-none-match"), "");
    const std::string from = "/acc/con/big?comp=block&blockid=";
    ASSERT_THAT(sent[i].target, testing::StartsWith(from));
    ids.push_back(percent_decode(sent[i].target.substr(from.size())));
  }
  EXPECT_EQ(bytes, body.size());
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 4u);
  for (const std::string& id : ids) {
    EXPECT_EQ(id.size(), ids[0].size());
    EXPECT_THAT(sent[5].body, HasSubstr("<Latest>" + id + "</Latest>"));
  }
  EXPECT_EQ(sent[5].target, "/acc/con/big?comp=blocklist");
  EXPECT_EQ(sent[5].header("if-none-match"), "*");
}

TEST_F(AzureStoreTest, BlocksThatAnotherWriterSweptAwayAreSentAgain) {
  int lists = 0;
  reply_ = [&](const Request& request, int) {
    const bool is_list = request.target.ends_with("comp=blocklist");
    return is_list && ++lists == 1 ? refusal(400, "InvalidBlockList") : azure(201);
  };
  ASSERT_TRUE(store_->put("big", std::string(2500, 'x')));
  EXPECT_EQ(server_.requests().size(), 8u);
}

// Sent twice, the second list finds its blocks gone, or the name taken.
TEST_F(AzureStoreTest, ALargeObjectIsOursIfItHasOurNonce) {
  for (const Reply& answer :
       {refusal(400, "InvalidBlockList"), refusal(409, "BlobAlreadyExists")}) {
    for (const bool is_ours : {true, false}) {
      std::string nonce;
      int lists = 0;
      reply_ = [&](const Request& request, int) {
        if (request.method == "HEAD") {
          const std::string other(32, 'a');
          return lists == 0 ? refusal(404, "BlobNotFound") : head_of(2500, is_ours ? nonce : other);
        }
        if (!request.target.ends_with("comp=blocklist")) return azure(201);
        ++lists;
        nonce = nonce_of(request);
        return answer;
      };
      const Status created = store_->create("big", std::string(2500, 'x'));
      EXPECT_EQ(created.has_value(), is_ours);
      EXPECT_EQ(created ? Code::already_exists : created.error().code, Code::already_exists);
      EXPECT_EQ(nonce.size(), 32u);
      EXPECT_EQ(lists, 1);
    }
  }
}

TEST_F(AzureStoreTest, ARefusedBlockEndsTheUploadSoon) {
  reply_ = [](const Request&, int) { return refusal(404, "ContainerNotFound"); };
  const Error error = error_of(store_->put("big", std::string(100'000, 'x')));
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_THAT(error.message, HasSubstr("`tern store mb az://acc/con`"));
  EXPECT_LE(server_.requests().size(), 16u);
}

TEST_F(AzureStoreTest, ALargeObjectIsReadInPartsOfOneVersion) {
  std::string body;
  for (int i = 0; i < 9'999; ++i) body += static_cast<char>('a' + i * i % 23);
  reply_ = [&](const Request& request, int) {
    return request.header("if-match") == "\"0\"" ? refusal(412, "ConditionNotMet")
                                                 : range_of(request, body);
  };
  EXPECT_TRUE(store_->get("big").value() == body);
  EXPECT_EQ(server_.requests().size(), 9u);  // two parts, then eight
  EXPECT_EQ(server_.requests().at(0).header("if-match"), "");
  EXPECT_EQ(server_.requests().at(5).header("if-match"), "\"1\"");
  EXPECT_TRUE(store_->get_range("big", 1001, 7000).value() == body.substr(1001, 7000));
}

TEST_F(AzureStoreTest, AnObjectThatIsReplacedWhileReadIsReadAnew) {
  const std::string old_body(5000, 'o');
  const std::string new_body(4000, 'n');
  reply_ = [&](const Request& request, int now) {
    if (now == 0) return range_of(request, old_body, "\"old\"");
    if (request.header("if-match") == "\"old\"") return refusal(412, "ConditionNotMet");
    return range_of(request, new_body, "\"new\"");
  };
  EXPECT_TRUE(store_->get("x").value() == new_body);
}

TEST_F(AzureStoreTest, AnObjectThatIsReplacedAgainAndAgainIsReadInOnePiece) {
  const std::string body(5000, 'x');
  reply_ = [&](const Request& request, int) {
    if (!request.header("if-match").empty()) return refusal(412, "ConditionNotMet");
    return range_of(request, body);
  };
  EXPECT_TRUE(store_->get("x").value() == body);
}

TEST_F(AzureStoreTest, APartOfAnObjectOfAnotherSizeIsOfAnotherVersion) {
  reply_ = [&](const Request& request, int now) {
    return range_of(request, std::string(now == 0 ? 5000 : 4000, now == 0 ? 'o' : 'n'));
  };
  EXPECT_TRUE(store_->get("x").value() == std::string(4000, 'n'));
}

TEST_F(AzureStoreTest, BytesThatDoNotFitTheStoredChecksumAreReadAgain) {
  const std::string sum = "x-ms-blob-content-md5: " + base64(md5("right"));
  reply_ = [&](const Request& request, int now) {
    return range_of(request, now == 0 ? "wrong" : "right", "\"1\"", {sum});
  };
  EXPECT_EQ(store_->get("x").value(), "right");
  reply_ = [&](const Request& request, int) { return range_of(request, "wrong", "\"1\"", {sum}); };
  EXPECT_EQ(error_of(store_->get("x")).code, Code::corrupt);
}

TEST_F(AzureStoreTest, RangesAreAskedForTogetherAndAnsweredInTheirOrder) {
  const std::string body = "0123456789";
  reply_ = [&](const Request& request, int) {
    if (request.target == "/acc/con/absent") return refusal(404, "BlobNotFound");
    if (request.method == "HEAD") return azure(200, body);
    return range_of(request, body);
  };
  const std::vector<ObjectRange> ranges = {{"a", 2, 3}, {"absent", 0, 1}, {"a", 8, 100},
                                           {"a", 5, 0}, {"a", -1, 2},     {"", 0, 1},
                                           {"a", 0, 10}};
  const auto got = store_->get_ranges(ranges);
  ASSERT_EQ(got.size(), 7u);
  EXPECT_EQ(got[0].value(), "234");
  EXPECT_EQ(error_of(got[1]).code, Code::not_found);
  EXPECT_EQ(got[2].value(), "89");
  EXPECT_EQ(got[3].value(), "");
  EXPECT_EQ(error_of(got[4]).code, Code::invalid);
  EXPECT_EQ(error_of(got[5]).code, Code::invalid);
  EXPECT_EQ(got[6].value(), body);
}

TEST_F(AzureStoreTest, OtherBytesThanAskedForAreCorrupt) {
  const std::vector<std::vector<std::string>> answers = {
      {},
      {"Content-Range: bytes 1-3/10"},
      {"Content-Range: bytes 0-3/10"},
      {"Content-Range: bytes 0-2/2"},
      {"Content-Range: bytes 0-2/*"},
      {"Content-Range: all"},
      {"Content-Range: bytes 0-2/9223372036854775807"}};
  for (const auto& headers : answers) {
    reply_ = [&](const Request&, int) { return azure(206, "abc", headers); };
    EXPECT_EQ(error_of(store_->get_range("x", 0, 3000)).code, Code::corrupt);
  }
}

TEST_F(AzureStoreTest, AnEmptyAnswerIsTakenOnlyAtTheObjectsEnd) {
  for (const Reply& empty : {refusal(416, "InvalidRange"), azure(206)}) {
    reply_ = [&](const Request& request, int) -> Reply {
      if (request.method != "HEAD") return empty;
      return {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nx-ms-request-id: 1\r\n\r\n"};
    };
    EXPECT_EQ(store_->get_range("x", 4, 1).value_or("none"), "");
    EXPECT_EQ(error_of(store_->get_range("x", 5, 1)).code, Code::invalid);
    EXPECT_EQ(error_of(store_->get_range("x", 3, 1)).code, Code::corrupt);
  }
  reply_ = [](const Request&, int) { return refusal(416, "InvalidRange"); };
  EXPECT_EQ(store_->get("x").value_or("none"), "");
}

TEST_F(AzureStoreTest, AListingIsReadToItsLastPageAndSorted) {
  const auto blob = [](const std::string& name) {
    return fmt::format(
        "<Blob><Name>{}</Name><Properties><Content-Length>1</Content-Length>"
        "</Properties></Blob>",
        name);
  };
  reply_ = [&](const Request& request, int now) {
    EXPECT_THAT(request.target, HasSubstr("&prefix=p%2F"));
    EXPECT_EQ(request.target.ends_with("&marker=m%201"), now == 1);
    return azure(200, fmt::format("<EnumerationResults><Blobs>{}</Blobs><NextMarker>{}"
                                  "</NextMarker></EnumerationResults>",
                                  now == 0 ? blob("p/b") + blob("other") : blob("p/a"),
                                  now == 0 ? "m 1" : ""));
  };
  EXPECT_THAT(store_->list("p/").value(),
              testing::ElementsAre(ObjectInfo{"p/a", 1}, ObjectInfo{"p/b", 1}));
}

TEST_F(AzureStoreTest, NamesThatAreNoneHereAreListedOnlyWhenAskedFor) {
  reply_ = [](const Request&, int) {
    return azure(200,
                 "<EnumerationResults><Blobs><Blob><Name>folder/</Name><Properties>"
                 "<Content-Length>0</Content-Length></Properties></Blob><Blob><Name>ok</Name>"
                 "<Properties><Content-Length>2</Content-Length></Properties></Blob></Blobs>"
                 "<NextMarker/></EnumerationResults>");
  };
  EXPECT_THAT(store_->list("").value(), testing::ElementsAre(ObjectInfo{"ok", 2}));
  EXPECT_THAT(list_whole(*store_, "").value(),
              testing::ElementsAre(ObjectInfo{"folder/", 0}, ObjectInfo{"ok", 2}));
}

TEST_F(AzureStoreTest, AListingThatDoesNotEndIsLeft) {
  reply_ = [&](const Request&, int) {
    return azure(200,
                 "<EnumerationResults><Blobs/><NextMarker>same</NextMarker>"
                 "</EnumerationResults>");
  };
  EXPECT_EQ(error_of(store_->list("")).code, Code::corrupt);
}

TEST_F(AzureStoreTest, RemovingAsksForAllAndTellsTheFirstFailure) {
  reply_ = [&](const Request& request, int) {
    if (request.target.ends_with("/absent")) return refusal(404, "BlobNotFound");
    if (request.target.ends_with("/kept")) return refusal(403, "AuthorizationPermissionMismatch");
    return azure(202);
  };
  EXPECT_TRUE(store_->remove_all(std::vector<std::string>{"a", "absent", "b"}));
  EXPECT_EQ(server_.requests().size(), 3u);
  EXPECT_EQ(error_of(store_->remove_all(std::vector<std::string>{"kept", "a"})).code,
            Code::permission_denied);
  reply_ = [&](const Request&, int) { return refusal(404, "ContainerNotFound"); };
  EXPECT_THAT(error_of(store_->remove("a")).message, HasSubstr("tern store mb"));
}

TEST_F(AzureStoreTest, AContainerThatIsThereIsMadeToo) {
  reply_ = [&](const Request&, int now) {
    return now == 0 ? azure(201) : refusal(409, "ContainerAlreadyExists");
  };
  EXPECT_TRUE(store_->make_bucket());
  EXPECT_TRUE(store_->make_bucket());
  EXPECT_EQ(server_.requests().at(0).target, "/acc/con?restype=container");
  EXPECT_EQ(server_.requests().at(0).header("content-length"), "0");
}

TEST_F(AzureStoreTest, ABusyStoreIsAskedAgainAndThenGivenUp) {
  reply_ = [&](const Request&, int now) {
    return now < 3 ? refusal(503, "ServerBusy") : azure(201);
  };
  EXPECT_TRUE(store_->put("a", "x"));
  EXPECT_EQ(server_.requests().size(), 4u);
  reply_ = [&](const Request&, int) { return refusal(503, "ServerBusy"); };
  const Error error = error_of(store_->put("a", "x"));
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_THAT(error.message, HasSubstr("busy"));
}

TEST_F(AzureStoreTest, WhatIsNoObjectStoreIsToldByEveryVerb) {
  for (const int status : {200, 201, 202, 206, 301, 403, 404, 418}) {
    for (const std::string body : {"<html>It works!</html>", "{}", "\x01\xFF garbage"}) {
      reply_ = [&](const Request&, int) -> Reply {
        return {.bytes = TestWebServer::answer(status, body), .then = Reply::Then::close};
      };
      for (const Error& error :
           {error_of(store_->get("a")), error_of(store_->get_range("a", 0, 1)),
            error_of(store_->put("a", "x")), error_of(store_->create("a", "x")),
            error_of(store_->stat("a")), error_of(store_->list("")), error_of(store_->remove("a")),
            error_of(store_->make_bucket())}) {
        EXPECT_EQ(error.code, Code::failed_precondition) << error.message;
        EXPECT_THAT(error.message, HasSubstr("not an object store"));
      }
    }
  }
}

TEST_F(AzureStoreTest, AnAccountThatCannotBeReachedIsToldWithItsAddress) {
  std::string nobody;
  {
    TestWebServer gone([](const Request&) -> Reply { return {}; });
    nobody = gone.url("");
  }
  auto store = open_azure({.kind = StoreAddress::Kind::azure, .account = "acc", .bucket = "con"},
                          surroundings(nobody), transport_, {})
                   .value();
  const Error error = error_of(store->get("a"));
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_THAT(error.message, AllOf(HasSubstr("check that the account exists"), HasSubstr(nobody)));
}

TEST_F(AzureStoreTest, CredentialsAreShownWithoutTheirSecret) {
  EXPECT_EQ(store_->credentials().value(), "the key of account 'acc', from AZURE_STORAGE_KEY");
}

}  // namespace
}  // namespace tern
