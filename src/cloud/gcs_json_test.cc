#include "cloud/gcs_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern {
namespace {

TEST(GcsJson, AnObjectIsRead) {
  const auto object = parse_gcs_object(
      R"({"kind":"storage#object","name":"a/b","size":"5","generation":"17","crc32c":"mnG7TA=="})");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->name, "a/b");
  EXPECT_EQ(object->size_bytes, 5);
  EXPECT_EQ(object->generation, "17");
  EXPECT_EQ(object->crc32c, 0x9A71BB4CU);  // of "hello"
}

TEST(GcsJson, TheNonceIsReadFromTheMetadata) {
  const auto nonce_in = [](const std::string& metadata) {
    return parse_gcs_object(R"({"name":"a","size":"1","metadata":)" + metadata + "}").value().nonce;
  };
  EXPECT_EQ(nonce_in(R"({"other":"1","ternnonce":"0a1b"})"), "0a1b");
  for (const char* none : {"{}", "null", "[]", "7", R"("ternnonce")", R"({"ternnonce":7})",
                           R"({"ternnonce":{"ternnonce":"0a1b"}})"}) {
    EXPECT_EQ(nonce_in(none), "") << none;
  }
}

TEST(GcsJson, GarbageIsNoObject) {
  for (const std::string text :
       {"", "{", "[]", "null", "<html>", "{}", R"({"name":"a"})", R"({"name":"a","size":5})",
        R"({"name":"a","size":"-5"})", R"({"name":"a","size":"5x"})", R"({"name":7,"size":"5"})",
        R"({"name":"a","size":"99999999999999999999"})", R"({"name":"","size":"5"})",
        R"({"name":"a","size":""})"}) {
    EXPECT_FALSE(parse_gcs_object(text)) << text;
  }
  EXPECT_FALSE(parse_gcs_object(std::string(1'000'000, '[')));
  EXPECT_FALSE(parse_gcs_object(R"({"name":"a","size":"5","x":[[[[[[[[[[1]]]]]]]]]]})"));
}

TEST(GcsJson, WhatIsNotANumberIsNoGenerationAndNoChecksum) {
  const auto object =
      parse_gcs_object(R"({"name":"a","size":"5","generation":"1&alt=x","crc32c":"not base64"})");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->generation, "");
  EXPECT_FALSE(object->crc32c);
}

TEST(GcsJson, PagesAreReadAlsoEmptyOnes) {
  const auto page = parse_gcs_page(
      R"({"kind":"storage#objects","nextPageToken":"t","items":[{"name":"a","size":"1"},)"
      R"({"name":"b","size":"2"}]})");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->next, "t");
  ASSERT_EQ(page->objects.size(), 2U);
  EXPECT_EQ(page->objects[1].name, "b");
  EXPECT_TRUE(parse_gcs_page("{}"));
  EXPECT_TRUE(parse_gcs_page(R"({"kind":"storage#objects"})"));
  EXPECT_TRUE(parse_gcs_page(R"({"nextPageToken":"t"})"));
  for (const std::string text : {"", "[]", R"({"items":7})", R"({"items":[7]})",
                                 R"({"items":[{"name":"a"}]})", R"({"message":"hi"})"}) {
    EXPECT_FALSE(parse_gcs_page(text)) << text;
  }
}

TEST(GcsJson, AComplaintIsOnePrintableLine) {
  const auto complaint =
      parse_gcs_complaint(R"({"error":{"code":403,"message":"no\u0007 way\nsecond",)"
                          R"("errors":[{"reason":"forbidden"}]}})");
  ASSERT_TRUE(complaint);
  EXPECT_EQ(complaint->reason, "forbidden");
  EXPECT_EQ(complaint->message, "no? way");
  EXPECT_TRUE(parse_gcs_complaint(R"({"error":{"errors":[]}})"));
  EXPECT_TRUE(parse_gcs_complaint(R"({"error":{"errors":["x"]}})"));
  EXPECT_FALSE(parse_gcs_complaint(R"({"error":"invalid_grant"})"));
  const std::string long_text(5000, 'x');
  EXPECT_EQ(parse_gcs_complaint(R"({"error":{"message":")" + long_text + R"("}})")->message.size(),
            300U);
}

TEST(GcsJson, ChecksumsAreWrittenHighestByteFirst) {
  EXPECT_EQ(crc32c_text(0x9A71BB4C), "mnG7TA==");
  EXPECT_EQ(parse_crc32c_text("mnG7TA=="), 0x9A71BB4CU);
  EXPECT_EQ(parse_crc32c_text(crc32c_text(1)), 1U);
  for (const char* text : {"", "mnG7TA", "AAAA", "mnG7TAAA", "----"}) {
    EXPECT_FALSE(parse_crc32c_text(text)) << text;
  }
}

}  // namespace
}  // namespace tern
