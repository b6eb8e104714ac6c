#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/options.h"
#include "core/test_options.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(ToToml, ReadsBackExactly) {
  const double numbers[] = {0.1,  1e-05, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.0,
                            1e22, 1e100, 3.0,     -0.0,   123456789.125};
  for (const auto comments : {OptionSet::Comments::yes, OptionSet::Comments::no}) {
    for (const double number : numbers) {
      TestOptions written;
      written.seed = std::numeric_limits<int64_t>::min();
      written.optimizer.momentum = number;
      written.optimizer.factors = {1.0, 0.25};
      written.optimizer.milestones = {5};
      written.optimizer.nesterov = true;
      written.optimizer.warmup.steps = 17;
      written.loader.path = "tab\t \"quoted\" back\\slash\nnew \x01\x7f line # ä";
      written.loader.patience = Milliseconds(1500);
      const std::string text = written.set.to_toml(comments);

      TestOptions read;
      EXPECT_THAT(read.load(text), IsEmpty()) << text;
      EXPECT_EQ(read.optimizer.momentum, number);
      EXPECT_EQ(std::signbit(read.optimizer.momentum), std::signbit(number));
      EXPECT_THAT(changed_options(written.set, read.set), IsEmpty()) << text;
      EXPECT_EQ(read.set.to_toml(comments), text);
      EXPECT_EQ(read.loader.path, written.loader.path);
      EXPECT_EQ(read.loader.patience, written.loader.patience);
      EXPECT_EQ(read.seed, written.seed);
      EXPECT_EQ(read.optimizer.warmup.steps, 17);
    }
  }
}

TEST(ToToml, WithCommentsItExplainsItself) {
  TestOptions f;
  const std::string text = f.set.to_toml(OptionSet::Comments::yes);
  EXPECT_THAT(text, testing::StartsWith("# Of everything random.\nseed = 1\n\n"
                                        "# How weights move.\n[optimizer]\n\n"
                                        "# Which one. Allowed: \"sgd\", \"adamw\" or \"a|b\".\n"
                                        "kind = \"sgd\"\n\n"
                                        "# Step size. Allowed: above 0, at most 10.\n"
                                        "learning_rate = 0.1\n"));
  EXPECT_THAT(text, HasSubstr("\n\n# How it begins.\n[optimizer.warmup]\n\n"
                              "# Steps of warm-up. Allowed: 0 or more.\nsteps = 100\n"));
  EXPECT_THAT(text, testing::EndsWith("# Wait this long. Allowed: from 1s to 1h. (may change on "
                                      "resume)\npatience = \"30s\"\n"));
  std::istringstream lines(text);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  EXPECT_LE(longest, 96u);
  EXPECT_GT(longest, 80u) << "the long help is wrapped, not broken at every word";
}

TEST(ToToml, WithoutCommentsItIsOnlyTheValues) {
  TestOptions f;
  EXPECT_EQ(f.set.to_toml(OptionSet::Comments::no),
            "seed = 1\n\n"
            "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.1\nmomentum = 0.9\nnesterov = false\n"
            "factors = [0.1, 1.0]\nmilestones = []\n\n"
            "[optimizer.warmup]\nsteps = 100\n\n"
            "[loader]\nthreads = 2\npath = \"data\"\npatience = \"30s\"\n");
}

TEST(ToTable, MarksWhatIsNotTheDefault) {
  TestOptions f;
  f.optimizer.learning_rate = 0.25;
  f.loader.path = "/data";
  EXPECT_EQ(f.set.to_table(),
            "  seed           1\n"
            "[optimizer]\n"
            "  kind           \"sgd\"\n"
            "* learning_rate  0.25     (default 0.1)\n"
            "  momentum       0.9\n"
            "  nesterov       false\n"
            "  factors        [0.1, 1.0]\n"
            "  milestones     []\n"
            "[optimizer.warmup]\n"
            "  steps          100\n"
            "[loader]\n"
            "  threads        2\n"
            "* path           \"/data\"  (default \"data\")\n"
            "  patience       \"30s\"\n");
}

TEST(ToMarkdown, HasATableASection) {
  TestOptions f;
  f.loader.threads = 9;  // the page shows defaults, whatever is set now
  const std::string page = f.set.to_markdown();
  EXPECT_THAT(
      page,
      HasSubstr("## [loader]\n\nHow batches are made.\n\n"
                "| Key | Type | Default | Allowed | On resume | Across ranks | What it does |\n"
                "| --- | --- | --- | --- | --- | --- | --- |\n"
                "| `threads` | whole number | `2` | from 0 to 256 | may change | may differ | "
                "Threads that read; "));
  EXPECT_THAT(page, HasSubstr("| `path` | text | `\"data\"` |  | must agree | must agree | Where "
                              "a\\|b is. |\n"));
  EXPECT_THAT(page, HasSubstr("\"sgd\", \"adamw\" or \"a\\|b\""));
  EXPECT_THAT(page, testing::StartsWith("| Key |"));
}

TEST(ChangedOptions, ListsBothValuesAndTheRule) {
  TestOptions before;
  TestOptions after;
  EXPECT_THAT(changed_options(before.set, after.set), IsEmpty());
  after.loader.threads = 3;
  after.optimizer.momentum = std::nextafter(0.9, 1.0);
  const auto changes = changed_options(before.set, after.set);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].key, "optimizer.momentum");
  EXPECT_EQ(changes[0].before, "0.9");
  EXPECT_EQ(changes[0].after, "0.9000000000000001");
  EXPECT_EQ(changes[0].on_resume, OnResume::must_agree);
  EXPECT_EQ(changes[1].key, "loader.threads");
  EXPECT_EQ(changes[1].on_resume, OnResume::may_change);
}

TEST(ValueOf, IsTomlOrNothing) {
  TestOptions f;
  EXPECT_EQ(f.set.value_of("loader.patience"), "\"30s\"");
  EXPECT_EQ(f.set.value_of("optimizer.factors"), "[0.1, 1.0]");
  EXPECT_EQ(f.set.value_of("loader"), std::nullopt);
  EXPECT_EQ(f.set.value_of("loader.nothing"), std::nullopt);
}

TEST(ParseDuration, ReadsEveryUnit) {
  const std::pair<std::string_view, int64_t> cases[] = {{"30s", 30'000},
                                                        {"500ms", 500},
                                                        {"5m", 300'000},
                                                        {"1.5h", 5'400'000},
                                                        {"2d", 172'800'000},
                                                        {"30", 30'000},
                                                        {"0.25", 250},
                                                        {" 5 m ", 300'000},
                                                        {"0", 0},
                                                        {"1e3s", 1'000'000},
                                                        {"1.1s", 1100},
                                                        {"0.0005s", 1},
                                                        {"36500d", 3'153'600'000'000}};
  for (const auto& [text, ms] : cases) {
    const Result<Milliseconds> duration = parse_duration(text);
    ASSERT_TRUE(duration) << text << ": " << duration.error().message;
    EXPECT_EQ(duration->count(), ms) << text;
  }
}

TEST(ParseDuration, RefusesWhatIsNone) {
  for (const std::string_view bad :
       {"",    " ",   "s",    "soon", "5 parsecs", "-5s",    "-0.1",    "0x10s", "5s5",  "1e",
        "inf", "nan", "nans", "infd", "36501d",    "1e999s", "0.0001s", "5M",    "1,5h", "5m30s"}) {
    const Result<Milliseconds> duration = parse_duration(bad);
    ASSERT_FALSE(duration) << bad << " was read as " << duration->count() << " ms";
    EXPECT_EQ(duration.error().code, Code::invalid);
    EXPECT_THAT(duration.error().message, HasSubstr("such as \"30s\"")) << bad;
  }
}

TEST(FormatDuration, IsTheShortestThatReadsBack) {
  EXPECT_EQ(format_duration(Milliseconds(0)), "0s");
  EXPECT_EQ(format_duration(Milliseconds(500)), "500ms");
  EXPECT_EQ(format_duration(Milliseconds(1500)), "1500ms");
  EXPECT_EQ(format_duration(Milliseconds(30'000)), "30s");
  EXPECT_EQ(format_duration(Milliseconds(90'000)), "90s");
  EXPECT_EQ(format_duration(Milliseconds(5'400'000)), "90m");
  EXPECT_EQ(format_duration(Milliseconds(7'200'000)), "2h");
  EXPECT_EQ(format_duration(Milliseconds(172'800'000)), "2d");
  for (const int64_t ms : {1, 7, 999, 1001, 59'999, 86'399'999, 86'400'001}) {
    EXPECT_EQ(parse_duration(format_duration(Milliseconds(ms)))->count(), ms);
  }
}

TEST(NearestName, FindsTyposButNotStrangers) {
  const std::vector<std::string> known = {"learning_rate", "momentum", "kind"};
  EXPECT_EQ(nearest_name("learning_rat", known), "learning_rate");
  EXPECT_EQ(nearest_name("laerning_rate", known), "learning_rate");
  EXPECT_EQ(nearest_name("learningrate", known), "learning_rate");
  EXPECT_EQ(nearest_name("Momentum", known), "momentum");
  EXPECT_EQ(nearest_name("knid", known), "kind") << "neighbours swapped are one edit";
  EXPECT_EQ(nearest_name("batch", known), std::nullopt);
  EXPECT_EQ(nearest_name("x", known), std::nullopt);
  EXPECT_EQ(nearest_name("", known), std::nullopt);
  EXPECT_EQ(nearest_name("x", {"y"}), std::nullopt) << "nothing in common";
  EXPECT_EQ(nearest_name(std::string(10'000, 'a'), known), std::nullopt);
}

}  // namespace
}  // namespace tern
