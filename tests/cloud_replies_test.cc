// What becomes of a write whose reply never arrives, or that arrives twice, on each cloud's real
// server.
#include <gtest/gtest.h>

#include <memory>

#include "cloud/create_only.h"
#include "cloud_under_test.h"

namespace tern {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
const BucketOptions kSmallParts{.part_bytes = 5 * kMebibyte, .in_flight_max = 4};

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

// As a proxy or a balancer may do it: of the two answers the second counts, which says of a create
// that the name is taken.
TEST_P(CloudReplies, AWriteThatArrivesTwiceIsDoneOnceAndKnownToBe) {
  Bucket& bucket = open_bucket([](const WireRequest& request) {
    const bool is_bucket = request.number == 0;  // made before
    return WireStep{.fault = is_bucket ? WireFault::none : WireFault::repeat};
  });
  std::vector<size_t> sizes = {5, 0};
  // fake-gcs-server takes no part of an upload twice; strict_gcs stands in.
  if (GetParam() != ServerKind::fake_gcs) sizes.push_back(12 * kMebibyte);
  for (const size_t size : sizes) {
    const std::string name = "of " + std::to_string(size);
    const Bytes bytes(size, 'm');
    const Status created = bucket.create(name, bytes);
    ASSERT_TRUE(created) << created.error().to_string();
    EXPECT_TRUE(bucket.get(name).value() == bytes);
    // The same bytes, and not the same write.
    EXPECT_EQ(code_of(bucket.create(name, bytes)), Code::already_exists);
    const Status replaced = bucket.put(name, "new" + bytes);
    ASSERT_TRUE(replaced) << replaced.error().to_string();
    EXPECT_TRUE(bucket.get(name).value() == "new" + bytes);
    EXPECT_EQ(code_of(bucket.create(name, bytes)), Code::already_exists);
    EXPECT_EQ(bucket.list(name).value().size(), 1U);
    EXPECT_TRUE(bucket.remove(name));
  }
  const Status races = check_create_only(bucket);  // of eight writers each
  EXPECT_TRUE(races) << races.error().to_string();
  EXPECT_TRUE(bucket.list("").value().empty());
  EXPECT_GE(met(WireFault::repeat), 40);
}

INSTANTIATE_TEST_SUITE_P(Clouds, CloudReplies,
                         testing::Values(ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::fake_gcs, ServerKind::strict_gcs),
                         [](const testing::TestParamInfo<ServerKind>& param) {
                           return name_of(param.param, Way::direct);
                         });

}  // namespace
}  // namespace tern
