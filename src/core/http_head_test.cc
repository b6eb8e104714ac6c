#include "core/http_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"

namespace tern {
namespace {

using testing::ElementsAre;

// Adds the lines of `text`; the first failure, if any.
Status add(HttpHead& head, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    RETURN_IF_ERROR(head.add_line(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return {};
}

bool is_garbage(std::string_view text) {
  HttpHead head;
  const Status added = add(head, text);
  return !added && added.error().code == Code::unavailable;
}

TEST(HttpHead, AHeadIsRead) {
  HttpHead head;
  ASSERT_TRUE(add(head,
                  "HTTP/1.1 206 Partial Content\r\nETag: \"a:b\"\r\nCONTENT-length:  12 \r\n"
                  "x-empty:\r\n"));
  EXPECT_FALSE(head.is_complete());
  ASSERT_TRUE(add(head, "\r\n"));
  EXPECT_TRUE(head.is_complete());
  EXPECT_EQ(head.status(), 206);
  EXPECT_EQ(head.content_length(), 12);
  const HttpAnswer answer{.headers = head.take_headers()};
  EXPECT_THAT(answer.headers,
              ElementsAre(HttpHeader{"ETag", "\"a:b\""}, HttpHeader{"CONTENT-length", "12"},
                          HttpHeader{"x-empty", ""}));
  EXPECT_EQ(answer.header("etag"), "\"a:b\"");
  EXPECT_EQ(answer.header("Content-Length"), "12");
  EXPECT_EQ(answer.header("content"), "");
}

TEST(HttpHead, WhatIsAllowedButRareIsRead) {
  for (const char* line : {"HTTP/1.0 200 OK\n", "HTTP/1.1 200\r\n", "HTTP/1.1 200 \r\n",
                           "HTTP/1.1 599 Gr\xc3\xbc\xc3\x9f"
                           "e\r\n"}) {
    HttpHead head;
    EXPECT_TRUE(add(head, line)) << line;
  }
  HttpHead head;
  ASSERT_TRUE(add(head,
                  "HTTP/1.1 200 OK\r\nx-meta: Gr\xc3\xbc\xc3\x9f"
                  "e\tall\r\nfolded: one\r\n"
                  "  two\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\n"));
  const HttpAnswer answer{.headers = head.take_headers()};
  EXPECT_EQ(answer.header("x-meta"),
            "Gr\xc3\xbc\xc3\x9f"
            "e\tall");
  EXPECT_EQ(answer.header("folded"), "one two");
}

TEST(HttpHead, AnInterimHeadIsForgotten) {
  HttpHead head;
  ASSERT_TRUE(add(head, "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\nx: 1\r\n\r\n"));
  EXPECT_EQ(head.status(), 100);
  ASSERT_TRUE(add(head, "HTTP/1.1 200 OK\r\ny: 2\r\n\r\n"));
  EXPECT_EQ(head.status(), 200);
  EXPECT_EQ(head.content_length(), std::nullopt);
  EXPECT_THAT(head.take_headers(), ElementsAre(HttpHeader{"y", "2"}));
}

TEST(HttpHead, ATrailerChangesNothing) {
  HttpHead head;
  ASSERT_TRUE(add(head, "HTTP/1.1 200 OK\r\na: 1\r\n\r\n"));
  ASSERT_TRUE(add(head, "HTTP/1.1 500 No\r\na: 2\r\n:::\r\n\r\n"));
  EXPECT_EQ(head.status(), 200);
  EXPECT_THAT(head.take_headers(), ElementsAre(HttpHeader{"a", "1"}));
}

TEST(HttpHead, AStatusLineThatIsNoneIsGarbage) {
  for (const char* line :
       {"\r\n", "HTTP/1.1\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 2x0 OK\r\n",
        "HTTP/1.1  200 OK\r\n", "HTTP/11 200 OK\r\n", "http/1.1 200 OK\r\n", "HTTP/1.1 000 OK\r\n",
        "HTTP/1.1 999 OK\r\n", "HTTP/1.1 -20 OK\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
        "<html><body>hello</body></html>\r\n", "200 OK\r\n"}) {
    EXPECT_TRUE(is_garbage(line)) << line;
  }
}

TEST(HttpHead, AHeaderThatIsNoneIsGarbage) {
  const std::string good = "HTTP/1.1 200 OK\r\n";
  for (const std::string line :
       {"no colon\r\n", ": no name\r\n", "a b: c\r\n", "a : c\r\n", " folded first\r\n",
        "a\x01: c\r\n", "a: c\x01\r\n", "a: c\rd: e\r\n", "a: \x7f\r\n", "\xff\xfe: a\r\n"}) {
    EXPECT_TRUE(is_garbage(good + line)) << line;
  }
  EXPECT_TRUE(is_garbage(good + std::string("a: b\0c\r\n", 8)));
}

TEST(HttpHead, ALengthThatIsNoneIsGarbage) {
  const std::string good = "HTTP/1.1 200 OK\r\nContent-Length: ";
  for (const char* value : {"-1", "+1", "", "1 2", "1, 1", "0x10", "1e9", "9223372036854775808",
                            "99999999999999999999999999", "\xd9\xa1"}) {
    EXPECT_TRUE(is_garbage(good + value + "\r\n")) << value;
  }
  EXPECT_TRUE(is_garbage(good + "7\r\ncontent-length: 8\r\n"));
  EXPECT_FALSE(is_garbage(good + "9223372036854775807\r\n"));
}

TEST(HttpHead, AHeadThatDoesNotEndIsGarbage) {
  HttpHead head;
  ASSERT_TRUE(add(head, "HTTP/1.1 200 OK\r\n"));
  Status added;
  size_t lines = 0;
  for (; added && lines < HttpHead::kBytesMax; ++lines) added = head.add_line("a: b\r\n");
  EXPECT_FALSE(added);
  EXPECT_LT(lines, HttpHead::kBytesMax / 5);
  EXPECT_TRUE(
      is_garbage("HTTP/1.1 200 OK\r\na: " + std::string(HttpHead::kBytesMax, 'b') + "\r\n"));
  std::string interim;
  for (size_t i = 0; i < HttpHead::kBytesMax / 20; ++i) interim += "HTTP/1.1 100 Wait\r\n\r\n";
  EXPECT_TRUE(is_garbage(interim));
}

// Every line is either taken or refused with a reason, whatever its bytes.
TEST(HttpHead, DamagedHeadsAreReadOrRefused) {
  const std::string good =
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"x\"\r\n folded\r\nx-y: z\r\n\r\n";
  int refused = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed, Stream::augment, 0);
    std::string bad = good;
    for (uint32_t i = 0; i <= random.below(3); ++i) {
      const size_t at = random.below(static_cast<uint32_t>(bad.size()));
      if (random.below(3) == 0)
        bad.erase(at, random.below(8));
      else
        bad[at] = static_cast<char>(random.below(256));
    }
    HttpHead head;
    if (add(head, bad)) continue;
    ++refused;
  }
  EXPECT_GT(refused, 5'000);
  EXPECT_LT(refused, 19'000);
}

}  // namespace
}  // namespace tern
