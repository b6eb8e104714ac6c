#include "cloud/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace tern {
namespace {

using testing::HasSubstr;
using Kind = StoreAddress::Kind;

TEST(StoreAddressTest, EachCloudHasItsScheme) {
  EXPECT_EQ(parse_store_address("s3://bucket/a/b").value(),
            (StoreAddress{.kind = Kind::s3, .bucket = "bucket", .prefix = "a/b"}));
  EXPECT_EQ(parse_store_address("gs://my_bucket.x").value(),
            (StoreAddress{.kind = Kind::gcs, .bucket = "my_bucket.x"}));
  EXPECT_EQ(parse_store_address("az://account/box/a b/ü/").value(),
            (StoreAddress{
                .kind = Kind::azure, .account = "account", .bucket = "box", .prefix = "a b/ü"}));
}

TEST(StoreAddressTest, APathIsAFolder) {
  EXPECT_EQ(parse_store_address("file:///var/x").value(), (StoreAddress{.prefix = "/var/x"}));
  EXPECT_EQ(parse_store_address("runs/demo").value(), (StoreAddress{.prefix = "runs/demo"}));
  EXPECT_TRUE(parse_store_address("s3:/x")->is_folder());
  EXPECT_TRUE(parse_store_address("a:b")->is_folder());
}

TEST(StoreAddressTest, IsWrittenAsItWasRead) {
  for (const std::string text : {"s3://bucket", "s3://bucket/a/b", "gs://bucket/x y",
                                 "az://account/box", "az://account/box/p", "/var/x", "runs/x"}) {
    EXPECT_EQ(parse_store_address(text).value().to_string(), text);
  }
  EXPECT_EQ(parse_store_address("s3://bucket/a/b///").value().to_string(), "s3://bucket/a/b");
}

TEST(StoreAddressTest, WhatIsNoneIsRefusedWithTheFormsThatAre) {
  for (const std::string text :
       {"", "ftp://host/x", "s3://", "s3:///x", "gs:///x", "az://account", "az:///box/x",
        "file://relative", "file://", "s3://b", "s3://bu cket/x", "gs://Bucket/x",
        "az://Account/box", "az://account/Box", "s3://bucket/a//b", "s3://bucket/../x",
        "s3://bucket/a\nb"}) {
    const auto address = parse_store_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, Code::invalid) << text;
  }
  EXPECT_THAT(parse_store_address("ftp://x").error().message, HasSubstr("s3://bucket/prefix"));
}

TEST(StoreAddressTest, OnlyCloudsAreCloudAddresses) {
  EXPECT_TRUE(is_cloud_address("s3://x"));
  EXPECT_TRUE(is_cloud_address("gs://"));
  EXPECT_TRUE(is_cloud_address("az://a/b"));
  for (const char* text : {"", "s3:/x", "file:///x", "/s3://", "x"}) {
    EXPECT_FALSE(is_cloud_address(text)) << text;
  }
}

TEST(CloudDoorTest, APathIsADiskStoreAndNoBucket) {
  std::string folder = testing::TempDir() + "cloud_door_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  SimClock clock;
  CloudDoor door({}, clock);
  const auto store = door.open({.prefix = folder});
  ASSERT_TRUE(store);
  EXPECT_TRUE((*store)->put("a/b", "x"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/a/b"));
  EXPECT_EQ(door.open_bucket({.prefix = folder}).error().code, Code::invalid);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tern
