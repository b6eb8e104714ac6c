#include "core/iso_time.h"

#include <gtest/gtest.h>

#include <string>

#include "core/clock.h"

namespace tern {
namespace {

TEST(IsoTime, TimesOfTheCloudsAreRead) {
  EXPECT_EQ(parse_iso_time("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_iso_time("2013-05-24T00:00:00Z"), 1'369'353'600'000);
  EXPECT_EQ(parse_iso_time("2010-11-10T20:48:33.000Z"), 1'289'422'113'000);
  EXPECT_EQ(parse_iso_time("2024-02-29T23:59:59.5Z"), 1'709'251'199'500);
  EXPECT_EQ(parse_iso_time("2024-02-29T23:59:59.123456789+00:00"), 1'709'251'199'123);
  EXPECT_EQ(parse_iso_time(format_utc(1'700'000'000'123)), 1'700'000'000'123);
}

TEST(IsoTime, OtherTextIsRefused) {
  for (const std::string text :
       {"", "2013", "2013-05-24", "2013-05-24T00:00:00", "2013-05-24 00:00:00Z",
        "2013-13-24T00:00:00Z", "2023-02-29T00:00:00Z", "2013-05-24T24:00:00Z",
        "2013-05-24T00:60:00Z", "2013-05-24T00:00:61Z", "2013-05-24T00:00:00.Z",
        "2013-05-24T00:00:00+02:00", "2013-05-24T00:00:00Zx", "-013-05-24T00:00:00Z",
        "2013-5-24T00:00:00Z", "Fri, 24 May 2013 00:00:00 GMT"}) {
    EXPECT_EQ(parse_iso_time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tern
