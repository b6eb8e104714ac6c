// Google Cloud Storage as strict as the real one (strict_gcs.py, ours): tokens that are checked and
// expire, uploads that are cut, forgotten and stored in part, answers that get lost.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/crc32c.h"
#include "store_servers.h"
#include "tiny_data.h"

namespace tern {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kUnit = 256 << 10;

class StrictGcs : public testing::Test {
 protected:
  StrictGcs()
      : server_({.kind = ServerKind::strict_gcs,
                 .arguments = {"--login", (scratch_ / "login.json").string(), "--bucket", "here"}}),
        http_(std::move(HttpClient::create({})).value()) {
    variables_ = {{"STORAGE_EMULATOR_HOST", server_.url()},
                  {"GOOGLE_APPLICATION_CREDENTIALS", (server_.folder() / "key.json").string()}};
  }

  std::unique_ptr<Bucket> open(const std::string& bucket = "here") {
    doors_.push_back(std::make_unique<CloudDoor>(
        surroundings_of(variables_, scratch_.path()), clock_, HttpOptions{},
        RetryPolicy{.first_wait = Milliseconds(1), .deadline = Milliseconds(20'000)},
        BucketOptions{.part_bytes = kUnit, .in_flight_max = 8}));
    auto opened = doors_.back()->open_bucket({.kind = StoreAddress::Kind::gcs, .bucket = bucket});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().to_string());
    return std::move(*opened);
  }

  // See Orders in strict_gcs.py.
  Json order(const std::string& verb) {
    const auto answer = http_->send(
        {.method = verb == "counts" ? "GET" : "POST", .url = server_.url() + "/_strict/" + verb});
    EXPECT_TRUE(answer && answer->status == 200) << verb;
    return answer ? Json::parse(answer->body, nullptr, false) : Json();
  }

  // The key file, changed by the test.
  void change_key(const std::string& member, const Json& value) {
    Json key = Json::parse(read_text(server_.folder() / "key.json"), nullptr, false);
    key[member] = value;
    std::ofstream(scratch_ / "changed.json") << key.dump();
    variables_["GOOGLE_APPLICATION_CREDENTIALS"] = (scratch_ / "changed.json").string();
  }

  static Bytes pattern(size_t size) {
    Bytes bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 257);
    return bytes;
  }

  ScratchFolder scratch_;
  SystemClock clock_;
  StoreServer server_;
  std::unique_ptr<HttpClient> http_;
  Variables variables_;
  std::vector<std::unique_ptr<CloudDoor>> doors_;
};

TEST_F(StrictGcs, AKeyIsChangedIntoOneTokenForAllRequests) {
  const auto bucket = open();
  ASSERT_TRUE(bucket->put("a/b", "hello"));
  EXPECT_EQ(bucket->get("a/b").value(), "hello");
  EXPECT_EQ(order("counts")["tokens"], 1);
  EXPECT_THAT(bucket->credentials().value(),
              AllOf(HasSubstr("strict@strict-project.iam.gserviceaccount.com"),
                    HasSubstr("key.json"), Not(HasSubstr("PRIVATE"))));
}

TEST_F(StrictGcs, APersonsLoginWorksToo) {
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = (scratch_ / "login.json").string();
  EXPECT_TRUE(open()->put("a", "b"));
}

TEST_F(StrictGcs, WithoutCredentialsNothingIsAllowed) {
  variables_.erase("GOOGLE_APPLICATION_CREDENTIALS");
  const auto got = open()->list("");
  EXPECT_EQ(got.error().code, Code::permission_denied);
  EXPECT_THAT(got.error().message, HasSubstr("GOOGLE_APPLICATION_CREDENTIALS is not"));
}

TEST_F(StrictGcs, ExpiredTokensAreReplacedOnceWhileManyAreReading) {
  const auto bucket = open();
  ASSERT_TRUE(bucket->put("x", pattern(3 * kUnit)));
  order("expire");
  std::vector<ObjectRange> ranges(40, {"x", 1000, 100});
  for (const auto& range : bucket->get_ranges(ranges)) {
    EXPECT_TRUE(range.value_or("") == pattern(3 * kUnit).substr(1000, 100));
  }
  EXPECT_EQ(order("counts")["tokens"], 1);
}

TEST_F(StrictGcs, AnotherKeyIsRefusedAndSaysSo) {
  change_key("private_key_id", "0123");
  const auto got = open()->get("x");
  EXPECT_EQ(got.error().code, Code::permission_denied);
  EXPECT_THAT(got.error().message, HasSubstr("Invalid JWT Signature"));
  change_key("private_key", "-----BEGIN PRIVATE KEY-----\nTOPSECRET");
  const auto broken = open()->get("x");
  EXPECT_EQ(broken.error().code, Code::corrupt);
  EXPECT_THAT(broken.error().message, Not(HasSubstr("TOPSECRET")));
}

TEST_F(StrictGcs, AWrongClockIsNamed) {
  order("clock?ahead=7200");
  const auto got = open()->get("x");
  EXPECT_EQ(got.error().code, Code::failed_precondition);
  EXPECT_THAT(got.error().message, HasSubstr("clock is 1"));  // 119 or 120 minutes
  EXPECT_THAT(got.error().message, HasSubstr("minutes behind Google's"));
}

TEST_F(StrictGcs, AVerbWithoutPermissionIsNamed) {
  const auto bucket = open();
  ASSERT_TRUE(bucket->put("x", "1"));
  order("deny?permission=storage.objects.create");
  const Status put = bucket->put("y", "2");
  EXPECT_EQ(put.error().code, Code::permission_denied);
  EXPECT_THAT(put.error().message,
              AllOf(HasSubstr("write gs://here/y"), HasSubstr("storage.objects.create")));
  EXPECT_EQ(bucket->get("x").value(), "1");
  order("deny?permission=storage.objects.delete");
  EXPECT_EQ(bucket->remove("x").error().code, Code::permission_denied);
}

TEST_F(StrictGcs, AMissingBucketIsMadeOnlyWhenAsked) {
  const auto bucket = open("fresh");
  const Status put = bucket->put("x", "1");
  EXPECT_EQ(put.error().code, Code::not_found);
  EXPECT_THAT(put.error().message, HasSubstr("tern store mb gs://fresh"));
  EXPECT_EQ(bucket->get("x").error().code, Code::not_found);
  EXPECT_EQ(bucket->remove("x").error().code, Code::not_found);
  ASSERT_TRUE(bucket->make_bucket());
  EXPECT_TRUE(bucket->make_bucket());
  EXPECT_TRUE(bucket->put("x", "1"));
}

TEST_F(StrictGcs, ListsTurnPages) {
  const auto bucket = open();
  std::vector<std::string> names;
  for (int i = 10; i < 40; ++i) names.push_back(fmt::format("p/{}+%", i));
  for (const std::string& name : names) ASSERT_TRUE(bucket->put(name, name));
  const auto found = bucket->list("p/").value();
  ASSERT_EQ(found.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(found[i].name, names[i]);
  EXPECT_TRUE(bucket->remove_all(names));
  EXPECT_TRUE(bucket->list("").value().empty());
}

TEST_F(StrictGcs, ALargeUploadSurvivesCutsPartialStoresAndThrottling) {
  const auto bucket = open();
  const Bytes bytes = pattern(10 * kUnit + 777);
  order("lose?method=PUT&count=3");
  order("fail?method=PUT&count=3&status=503");
  ASSERT_TRUE(bucket->put("big", bytes));
  EXPECT_TRUE(bucket->get("big").value() == bytes);
  order("fail?method=PUT&count=1&status=410");
  ASSERT_TRUE(bucket->create("big2", bytes));
  EXPECT_TRUE(bucket->get("big2").value() == bytes);
}

TEST_F(StrictGcs, PiecesThatAreStoredInPartAreCompleted) {
  // Parts of 1 MiB, of which a quarter stays each time.
  CloudDoor door(surroundings_of(variables_, scratch_.path()), clock_, {}, {},
                 {.part_bytes = 4 * kUnit});
  const auto bucket =
      std::move(door.open_bucket({.kind = StoreAddress::Kind::gcs, .bucket = "here"})).value();
  order(fmt::format("store?bytes={}", kUnit));
  const Bytes bytes = pattern(9 * kUnit + 5);
  ASSERT_TRUE(bucket->put("big", bytes));
  EXPECT_TRUE(bucket->get("big").value() == bytes);
}

TEST_F(StrictGcs, ALostAnswerToACreateIsResolved) {
  const auto bucket = open();
  for (const size_t size : {size_t{5}, static_cast<size_t>(3 * kUnit)}) {
    const std::string name = fmt::format("c{}", size);
    const Bytes bytes = pattern(size);
    // The last answer of all: the one that says the object is there.
    order(size == 5 ? "lose?method=POST" : "lose?method=PUT&skip=2");
    EXPECT_TRUE(bucket->create(name, bytes)) << size;
    EXPECT_EQ(bucket->create(name, bytes).error().code, Code::already_exists);
    EXPECT_TRUE(bucket->get(name).value() == bytes);
  }
}

TEST_F(StrictGcs, AnAnswerThatIsAWebPageIsNoStore) {
  const auto bucket = open();
  ASSERT_TRUE(bucket->put("x", "1"));
  order("garbage?count=1");
  const auto got = bucket->get("x");
  EXPECT_EQ(got.error().code, Code::failed_precondition);
  EXPECT_THAT(got.error().message, HasSubstr("not an object store"));
}

}  // namespace
}  // namespace tern
