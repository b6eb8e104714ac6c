#include "core/http_date.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(HttpDateTest, TheExampleOfTheStandardIsWrittenAndRead) {
  EXPECT_EQ(format_http_date(784'111'777'000), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784'111'777'000);
}

TEST(HttpDateTest, EveryHourOfFiveYearsIsReadAsItWasWritten) {
  constexpr int64_t kHourMs = 3'600'000;
  for (int64_t ms = 1'700'000'000'000; ms < 1'860'000'000'000; ms += kHourMs) {
    ASSERT_EQ(parse_http_date(format_http_date(ms)), ms);
  }
}

TEST(HttpDateTest, WhatIsNoDateIsNothing) {
  for (const char* text : {"", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
                           "Sun, 06 Nix 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
                           "Sun, 06 Nov 199x 08:49:37 GMT", "Sun, -6 Nov 1994 08:49:37 GMT",
                           "Sunday, 06-Nov-94 08:49:37 GMT", "Sun  06 Nov 1994 08:49:37 GMT"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
}

}  // namespace
}  // namespace tern
