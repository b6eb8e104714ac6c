#include "report/price.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Price, IsDollarsAnHourInWholeMicroDollars) {
  for (const char* text : {"0.526/h", "0.526", "$0.526/h", "$0.526", ".526", "000.5260000"}) {
    const Result<int64_t> price = parse_price(text);
    ASSERT_TRUE(price.has_value()) << text;
    EXPECT_EQ(*price, 526'000) << text;
  }
  EXPECT_EQ(parse_price("0").value_or(-1), 0);
  EXPECT_EQ(parse_price("98.32/h").value_or(-1), 98'320'000);
  EXPECT_EQ(parse_price("100000").value_or(-1), 100'000'000'000);
  EXPECT_EQ(parse_price("0.0000004").value_or(-1), 0);
  EXPECT_EQ(parse_price("0.0000005").value_or(-1), 1);
}

TEST(Price, AnythingElseIsRefusedWithTheRightForm) {
  for (
      const char* text :
      {"",      "$",         "/h",      "$/h",        ".",
       "-1",    "-0.5/h",    "1e3",     "inf",        "nan",
       "0x10",  "0,526",     "0.526/m", "0.526/hour", "0.526 /h",
       " 1",    "1 ",        "1.2.3",   "h",          "$$1",
       "1/h/h", "100000.01", "1e999",   "EUR 1",      "9999999999999999999999999999999999999999"}) {
    const Result<int64_t> price = parse_price(text);
    ASSERT_FALSE(price.has_value()) << text;
    EXPECT_EQ(price.error().code, Code::invalid);
    EXPECT_THAT(price.error().message, testing::HasSubstr("like --price 0.526/h")) << text;
  }
}

}  // namespace
}  // namespace tern
