// What becomes of a write whose reply never arrives, or that arrives twice, on each cloud's real
// server.
#include <gtest/gtest.h>

#include <memory>

#include "cloud_under_test.h"

namespace tern {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr BucketOptions kSmallParts{.part_bytes = 5 * kMebibyte, .in_flight_max = 4};

bool is_write(const WireRequest& request) {
  return request.method == "PUT" || request.method == "POST";
}

Code code_of(const Status& status) { return status ? Code::internal : status.error().code; }

class CloudReplies : public testing::TestWithParam<ServerKind> {
 protected:
  void SetUp() override {
    if (const auto missing = StoreServer::missing(GetParam()); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
  }

  // Both stay until the end of the test.
  Bucket& open_bucket(WirePlan plan) {
    cloud_ = std::make_unique<CloudUnderTest>(GetParam(), std::move(plan));
    opened_ = cloud_->open_new_bucket(kSmallParts);
    return *opened_.bucket;
  }
  int64_t met(WireFault fault) const { return cloud_->proxy().faults()[fault]; }

 private:
  std::unique_ptr<CloudUnderTest> cloud_;
  CloudUnderTest::Opened opened_;
};

TEST_P(CloudReplies, AWriteWhoseReplyIsLostIsDoneAndKnownToBe) {
  Bucket& bucket = open_bucket([writes = 0](const WireRequest& request) mutable {
    const bool is_lost = is_write(request) && ++writes % 2 == 1;
    return is_lost ? WireStep{.fault = WireFault::lose_answer} : WireStep{};
  });
  std::vector<size_t> sizes = {5, 0};
  // After a lost reply fake-gcs-server ends an upload in parts too early; strict_gcs stands in.
  if (GetParam() != ServerKind::fake_gcs) sizes.push_back(12 * kMebibyte);
  for (const size_t size : sizes) {
    const std::string name = "of " + std::to_string(size);
    const Bytes bytes(size, 'm');
    const Status created = bucket.create(name, bytes);
    ASSERT_TRUE(created) << created.error().to_string();
    EXPECT_TRUE(bucket.get(name).value() == bytes);
    EXPECT_EQ(code_of(bucket.create(name, "another's")), Code::already_exists);
    EXPECT_TRUE(bucket.get(name).value() == bytes);
    const Status replaced = bucket.put(name, "new" + bytes);
    ASSERT_TRUE(replaced) << replaced.error().to_string();
    EXPECT_TRUE(bucket.get(name).value() == "new" + bytes);
  }
  EXPECT_GE(met(WireFault::lose_answer), 6);
}

// Its writer may take its own object for another's, and so lose a race that it had won; but nobody
// else wins it.
TEST_P(CloudReplies, ACreateThatArrivesTwiceReplacesNothing) {
  Bucket& bucket = open_bucket([](const WireRequest& request) {
    return WireStep{.fault = request.is_create_only ? WireFault::repeat : WireFault::none};
  });
  const Status created = bucket.create("a", "mine");
  EXPECT_TRUE(created || created.error().code == Code::already_exists)
      << created.error().to_string();
  EXPECT_EQ(bucket.get("a").value(), "mine");
  EXPECT_EQ(code_of(bucket.create("a", "another's")), Code::already_exists);
  EXPECT_EQ(bucket.get("a").value(), "mine");
  EXPECT_EQ(met(WireFault::repeat), 2);
}

TEST_P(CloudReplies, WhatArrivesTwiceAndReplacesIsThereOnce) {
  Bucket& bucket = open_bucket([](const WireRequest& request) {
    const bool is_repeated = request.number > 0 && !request.is_create_only;
    return WireStep{.fault = is_repeated ? WireFault::repeat : WireFault::none};
  });
  const Status stored = bucket.put("a/b", "1");
  ASSERT_TRUE(stored) << stored.error().to_string();
  EXPECT_EQ(bucket.get("a/b").value(), "1");
  EXPECT_EQ(bucket.list("").value(), (std::vector<ObjectInfo>{{"a/b", 1}}));
  EXPECT_TRUE(bucket.remove("a/b"));
  EXPECT_TRUE(bucket.list("").value().empty());
}

INSTANTIATE_TEST_SUITE_P(Clouds, CloudReplies,
                         testing::Values(ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::fake_gcs, ServerKind::strict_gcs),
                         [](const testing::TestParamInfo<ServerKind>& param) {
                           return name_of(param.param, Way::direct);
                         });

}  // namespace
}  // namespace tern
