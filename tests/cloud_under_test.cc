#include "cloud_under_test.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

constexpr int64_t kFaultyEvery = 5;
constexpr uint64_t kFaultSeed = 7;

// Servers on loopback are at their best again at once.
constexpr RetryPolicy kPolicy{
    .first_wait = Milliseconds(5), .wait_max = Milliseconds(100), .deadline = Milliseconds(60'000)};

// Where versitygw 1.8.0 has an object of such a name, it takes no other in its place
// (ExistingObjectIsDirectory): its name for the new file is longer than a file's may be. A write
// that is carried out twice would fail for that alone.
bool is_too_long_for_versitygw(const WireRequest& request) {
  return request.method == "PUT" && request.target.size() - request.target.rfind('/') > 250;
}

// fake-gcs-server takes the question how much of an upload has arrived as the upload's end; it is
// asked after a fault. strict_gcs.py answers as Google does, and is not spared.
bool is_part_of_an_upload(const WireRequest& request) {
  return request.method == "PUT" && request.target.find("/upload/") != std::string::npos;
}

WirePlan plan_for(ServerKind kind) {
  return [share = faulty_share(kFaultyEvery, kFaultSeed), kind](const WireRequest& request) {
    const bool is_versitygw = kind == ServerKind::versitygw || kind == ServerKind::versitygw_as_aws;
    const bool is_spared = (is_versitygw && is_too_long_for_versitygw(request)) ||
                           (kind == ServerKind::fake_gcs && is_part_of_an_upload(request));
    return is_spared ? WireStep{} : share(request);
  };
}

}  // namespace

CloudUnderTest::CloudUnderTest(ServerKind kind, Way way)
    : kind_(kind), plan_(way == Way::direct ? WirePlan() : plan_for(kind)) {}

StoreServer& CloudUnderTest::server() {
  if (server_ != nullptr) return *server_;
  if (plan_) proxy_ = std::make_unique<FaultProxy>(plan_);
  server_ = std::make_unique<StoreServer>(
      StoreServer::Start{.kind = kind_, .front_port = proxy_ ? proxy_->port() : 0});
  if (proxy_) proxy_->lead_to(server_->port());
  return *server_;
}

CloudUnderTest::Opened CloudUnderTest::open_new_bucket(const BucketOptions& options) {
  Opened opened = open(server().address(fmt::format("bucket-{}", buckets_++)), options);
  if (opened.bucket == nullptr) return opened;
  const Status made = opened.bucket->make_bucket();
  EXPECT_TRUE(made) << made.error().to_string() << "\n" << server().said();
  return opened;
}

CloudUnderTest::Opened CloudUnderTest::open(const std::string& address,
                                            const BucketOptions& options) {
  Opened opened{.door = std::make_unique<CloudDoor>(server().surroundings(), clock_, HttpOptions{},
                                                    kPolicy, options),
                .address = address};
  auto bucket = opened.door->open_bucket(parse_store_address(address).value());
  EXPECT_TRUE(bucket) << bucket.error().to_string();
  if (bucket) opened.bucket = std::move(*bucket);
  return opened;
}

std::string name_of(ServerKind kind, Way way) {
  std::string name;
  switch (kind) {
    case ServerKind::versitygw: name = "Versitygw"; break;
    case ServerKind::versitygw_as_aws: name = "VersitygwAsAws"; break;
    case ServerKind::azurite: name = "Azurite"; break;
    case ServerKind::fake_gcs: name = "FakeGcs"; break;
    case ServerKind::strict_gcs: name = "StrictGcs"; break;
    case ServerKind::s3rver: name = "S3rver"; break;
    case ServerKind::metadata_mock: name = "MetadataMock"; break;
    case ServerKind::radosgw: name = "Radosgw"; break;
    case ServerKind::strict_metadata: name = "StrictMetadata"; break;
  }
  return name + (way == Way::through_faults ? "ThroughFaults" : "");
}

}  // namespace tern
