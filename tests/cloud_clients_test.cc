// The clouds' own clients (cloud_judge.py) and we read each other's objects, whatever they are
// called and however they were sent.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "cloud_under_test.h"
#include "core/hash.h"
#include "core/random.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMebibyte = int64_t{1} << 20;
const BucketOptions kSmallParts{.part_bytes = 5 * kMebibyte, .in_flight_max = 4};

// Parts of 200 bytes, 900 in all.
std::string long_name() {
  std::string name(900, 'n');
  for (size_t at = 200; at < name.size(); at += 201) name[at] = '/';
  return name;
}

std::map<std::string, Bytes> objects() {
  const std::vector<std::string> names = {
      "plain",  "a/b c/d",    " leading and trailing ",
      "1+1=2",  "100%",       "%2F%2e%2e+%20",
      "q?x#y&", "'quoted\"",  "a:b;c=d,e@f$g!h*(i)",
      "~tilde", "<xml>&amp;", "Gr\xC3\xB6\xC3\x9F\x65/\xE6\x97\xA5\xE6\x9C\xAC/\xF0\x9F\x90\xA6",
      "empty",  long_name()};
  std::map<std::string, Bytes> made;
  for (const std::string& name : names) made[name] = "the bytes of " + name;
  made["empty"] = "";
  Bytes large(static_cast<size_t>(12 * kMebibyte + 1), '\0');
  Random random(5, Stream::fingerprint, 0);
  for (size_t i = 0; i + 4 < large.size(); i += 512) large[i] = static_cast<char>(random.next());
  made["large"] = large;
  return made;
}

class CloudClients : public testing::TestWithParam<ServerKind> {
 protected:
  void SetUp() override {
    const char* judges = std::getenv("TERN_TEST_CLOUD_JUDGES");
    if (judges == nullptr || !fs::is_directory(fs::path(judges) / "boto3")) {
      GTEST_SKIP() << "no boto3 in TERN_TEST_CLOUD_JUDGES (scripts/fetch-cloud-judges)";
    }
    judges_ = judges;
    if (const auto missing = StoreServer::missing(GetParam()); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    opened_ = cloud_.open_new_bucket(kSmallParts);
    ASSERT_NE(opened_.bucket, nullptr);
  }

  ObjectStore& bucket() { return *opened_.bucket; }

  // What the judge prints; null if that is nothing.
  json judged(const std::string& verb) {
    const size_t scheme = opened_.address.find("://");
    const std::string name = opened_.address.substr(opened_.address.rfind('/') + 1);
    Process::Start start{.command = {"python3", TERN_SOURCE_DIR "/tests/cloud_judge.py", verb,
                                     opened_.address.substr(0, scheme), name, scratch_.path()},
                         .environment = cloud_.server().variables()};
    start.environment["PYTHONPATH"] = judges_;
    start.environment["PYTHONDONTWRITEBYTECODE"] = "1";
    start.environment["HOME"] = scratch_.path();  // no profiles of the user's
    const Finished finished = run_to_end(start);
    EXPECT_EQ(finished.exit_code, 0) << finished.err << cloud_.server().said();
    return finished.out.empty() ? json() : json::parse(finished.out, nullptr, false);
  }

  ScratchFolder scratch_;

 private:
  std::string judges_;
  CloudUnderTest cloud_{GetParam(), Way::direct};
  CloudUnderTest::Opened opened_;
};

TEST_P(CloudClients, WhatWeStoredTheyRead) {
  const auto ours = objects();
  std::set<std::string> created;
  size_t stored_before = 0;
  for (const auto& [name, bytes] : ours) {  // every second one, and the large, as checkpoints are
    const bool creates = stored_before++ % 2 == 0 || name == "large";
    const Status stored = creates ? bucket().create(name, bytes) : bucket().put(name, bytes);
    ASSERT_TRUE(stored) << stored.error().to_string();
    if (creates) created.insert(name);
  }
  const json said = judged("read");
  ASSERT_TRUE(said.is_object()) << said.dump();
  EXPECT_EQ(said.size(), ours.size());
  for (const auto& [name, bytes] : ours) {
    ASSERT_TRUE(said.contains(name)) << name;
    EXPECT_EQ(said[name].value("size", size_t{0}), bytes.size()) << name;
    EXPECT_EQ(said[name].value("sha256", ""), to_hex(sha256(bytes))) << name;
    EXPECT_TRUE(name == "large" || !said[name]["stored"].empty()) << name;
    // What a create knows its object by, and nothing else.
    const json& metadata = said[name]["metadata"];
    EXPECT_EQ(metadata.size(), created.contains(name) ? 1U : 0U) << name << metadata.dump();
    EXPECT_EQ(metadata.value("ternnonce", "").size(), created.contains(name) ? 32U : 0U) << name;
  }
}

TEST_P(CloudClients, WhatTheyStoredWeRead) {
  const auto theirs = objects();
  json listing = json::array();
  for (const auto& [name, bytes] : theirs) {
    const std::string file = std::to_string(listing.size());
    write_text(scratch_ / file, bytes);
    listing.push_back({{"name", name}, {"file", file}});
  }
  write_text(scratch_ / "objects.json", listing.dump());
  judged("write");
  const auto listed = bucket().list("");
  ASSERT_TRUE(listed) << listed.error().to_string();
  EXPECT_EQ(listed->size(), theirs.size());
  for (const auto& [name, bytes] : theirs) {
    const auto got = bucket().get(name);
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_TRUE(*got == bytes) << name;
    EXPECT_EQ(bucket().stat(name).value(), (ObjectInfo{name, static_cast<int64_t>(bytes.size())}));
    const Status created = bucket().create(name, "x");
    EXPECT_TRUE(!created && created.error().code == Code::already_exists) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Clouds, CloudClients,
                         testing::Values(ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::fake_gcs, ServerKind::strict_gcs),
                         [](const testing::TestParamInfo<ServerKind>& param) {
                           return name_of(param.param, Way::direct);
                         });

}  // namespace
}  // namespace tern
