#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/options.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Stop {
  int64_t at = 3;
  std::string name;
  std::vector<int64_t> days;
  std::vector<std::string> signs;
};

void describe(OptionSet& set, Stop& stop) {
  set.add("at", &stop.at, {.help = "When.", .min = 0, .max = 24});
  set.add("name", &stop.name, {.help = "Where.", .on_resume = OnResume::may_change});
  set.add("days", &stop.days, {.help = "On which days."});
  set.add("signs", &stop.signs, {.help = "What is written there."});
}

struct Journey {
  std::vector<Stop> stops;
  int64_t seats = 4;

  OptionSet set() {
    OptionSet described;
    described.add("seats", &seats, {.help = "How many."});
    described.list("stop", "Where it stops.", stops);
    return described;
  }
};

std::vector<std::string> load(OptionSet& set, std::string_view text) {
  std::vector<std::string> lines;
  for (const Problem& problem : set.load_toml(text, "f")) lines.push_back(problem.to_string());
  return lines;
}

constexpr std::string_view kTwoStops = R"(
seats = 2
[[stop]]
at = 5
name = "A"
days = [1, 2]
[[stop]]
name = "B"
)";

TEST(OptionList, TextsAreReadWrittenAndRefusedAsAList) {
  Journey journey;
  OptionSet set = journey.set();
  EXPECT_THAT(load(set, "[[stop]]\nsigns = ['way \"out\"', '']\n"), IsEmpty());
  EXPECT_THAT(journey.stops[0].signs, ElementsAre("way \"out\"", ""));
  EXPECT_THAT(set.to_toml(OptionSet::Comments::no), HasSubstr(R"(signs = ["way \"out\"", ""])"));
  EXPECT_THAT(
      load(set, "[[stop]]\nsigns = 'one'\n"),
      ElementsAre(HasSubstr(R"(signs wants a list of texts such as ["a", "b"], not text)")));
  EXPECT_THAT(load(set, "[[stop]]\nsigns = ['one', 2]\n"),
              ElementsAre(HasSubstr("wants text in quotes, not a whole number")));
}

TEST(OptionList, EachTableIsAnItemWithItsOwnDefaults) {
  Journey journey;
  OptionSet set = journey.set();
  EXPECT_THAT(load(set, kTwoStops), IsEmpty());
  ASSERT_THAT(journey.stops, SizeIs(2));
  EXPECT_EQ(journey.stops[0].at, 5);
  EXPECT_THAT(journey.stops[0].days, ElementsAre(1, 2));
  EXPECT_EQ(journey.stops[1].at, 3);
  EXPECT_EQ(journey.stops[1].name, "B");
  EXPECT_EQ(journey.seats, 2);
}

TEST(OptionList, WhatIsWrittenReadsBack) {
  Journey journey;
  OptionSet set = journey.set();
  ASSERT_THAT(load(set, kTwoStops), IsEmpty());
  for (const auto comments : {OptionSet::Comments::no, OptionSet::Comments::yes}) {
    Journey again;
    OptionSet other = again.set();
    EXPECT_THAT(load(other, set.to_toml(comments)), IsEmpty());
    EXPECT_THAT(changed_options(set, other), IsEmpty());
    EXPECT_EQ(other.to_toml(comments), set.to_toml(comments));
  }
}

TEST(OptionList, ASecondFileReplacesTheListAndAnEmptyOneClearsIt) {
  Journey journey;
  OptionSet set = journey.set();
  ASSERT_THAT(load(set, kTwoStops), IsEmpty());
  EXPECT_THAT(load(set, "seats = 1\n"), IsEmpty());
  EXPECT_THAT(journey.stops, SizeIs(2)) << "a file that does not speak of it leaves it";
  EXPECT_THAT(load(set, "[[stop]]\nname = 'C'\n"), IsEmpty());
  ASSERT_THAT(journey.stops, SizeIs(1));
  EXPECT_EQ(journey.stops[0].name, "C");
  EXPECT_THAT(load(set, "stop = []\n"), IsEmpty());
  EXPECT_THAT(journey.stops, IsEmpty());
}

TEST(OptionList, OneFieldOfAnItemCanBeSet) {
  Journey journey;
  OptionSet set = journey.set();
  ASSERT_THAT(load(set, kTwoStops), IsEmpty());
  EXPECT_EQ(set.set("stop.1.at=7"), std::nullopt);
  EXPECT_EQ(journey.stops[1].at, 7);
  EXPECT_TRUE(set.set("stop.2.at=7").has_value());
  EXPECT_TRUE(set.set("stop.1.at=25").has_value());
}

TEST(OptionList, MistakesAreNamedWithTheirItem) {
  Journey journey;
  OptionSet set = journey.set();
  EXPECT_THAT(load(set, "[[stop]]\nat = 99\n[[stop]]\nnam = 'x'\n"),
              ElementsAre(HasSubstr("f:2:6: stop.0.at = 99 is out of range"),
                          HasSubstr("f:4:1: unknown key 'stop.1.nam'; did you mean "
                                    "'stop.1.name'?")));
  EXPECT_THAT(load(set, "[stop]\nat = 1\n"), ElementsAre(HasSubstr("write [[stop]]")));
  EXPECT_THAT(load(set, "stop = 3\n"), ElementsAre(HasSubstr("write [[stop]]")));
  EXPECT_THAT(load(set, "stop = [1, 2]\n"), ElementsAre(HasSubstr("write [[stop]]")));
}

TEST(OptionList, ChangesAreSeenInValuesAndInLength) {
  Journey before;
  Journey after;
  OptionSet set_before = before.set();
  OptionSet set_after = after.set();
  ASSERT_THAT(load(set_before, kTwoStops), IsEmpty());
  ASSERT_THAT(load(set_after, kTwoStops), IsEmpty());
  ASSERT_EQ(set_after.set("stop.0.at=6"), std::nullopt);
  auto changes = changed_options(set_before, set_after);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].key, "stop.0.at");
  ASSERT_THAT(load(set_after, "[[stop]]\nat = 5\nname = 'A'\ndays = [1, 2]\n"), IsEmpty());
  changes = changed_options(set_before, set_after);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].key, "stop");
  EXPECT_EQ(changes[0].on_resume, OnResume::must_agree);
}

TEST(OptionList, TheManualDescribesAnItem) {
  Journey journey;
  const std::string page = journey.set().to_markdown();
  EXPECT_THAT(page, HasSubstr("## [[stop]]"));
  EXPECT_THAT(page, HasSubstr("| `at` | whole number | `3` | from 0 to 24 |"));
}

}  // namespace
}  // namespace tern
