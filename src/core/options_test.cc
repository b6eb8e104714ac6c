#include "core/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/test_options.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LoadToml, SetsEveryType) {
  TestOptions f;
  EXPECT_THAT(f.load(R"(
seed = 7
[optimizer]
warmup.steps = 5                # dotted keys do as well
kind = "adamw"
learning_rate = 1               # a whole number is a number
momentum = 9e-1
nesterov = true
factors = [1, 0.5]
milestones = [10, 20]
[loader]
threads = 0
path = 'C:\data'
patience = "1.5m"
)"),
              IsEmpty());
  EXPECT_EQ(f.seed, 7);
  EXPECT_EQ(f.optimizer.kind, "adamw");
  EXPECT_EQ(f.optimizer.learning_rate, 1.0);
  EXPECT_EQ(f.optimizer.momentum, 0.9);
  EXPECT_TRUE(f.optimizer.nesterov);
  EXPECT_THAT(f.optimizer.factors, ElementsAre(1.0, 0.5));
  EXPECT_THAT(f.optimizer.milestones, ElementsAre(10, 20));
  EXPECT_EQ(f.optimizer.warmup.steps, 5);
  EXPECT_EQ(f.loader.threads, 0);
  EXPECT_EQ(f.loader.path, "C:\\data");
  EXPECT_EQ(f.loader.patience, Milliseconds(90'000));
}

TEST(LoadToml, DottedKeysNeedNoHeader) {
  TestOptions f;
  EXPECT_THAT(f.load("loader.threads = 4\noptimizer.warmup.steps = 6\n"), IsEmpty());
  EXPECT_EQ(f.loader.threads, 4);
  EXPECT_EQ(f.optimizer.warmup.steps, 6);
}

TEST(LoadToml, WhatIsNotInTheFileKeepsItsValue) {
  TestOptions f;
  EXPECT_THAT(f.load("[loader]\nthreads = 5\n"), IsEmpty());
  EXPECT_THAT(f.load(""), IsEmpty());
  EXPECT_EQ(f.loader.threads, 5);
  EXPECT_EQ(f.optimizer.learning_rate, 0.1);
}

TEST(LoadToml, AMistypedKeyIsRefusedWithTheNearest) {
  TestOptions f;
  EXPECT_THAT(f.load("[optimizer]\nlearning_rat = 1\n"),
              ElementsAre("run.toml:2:1: unknown key 'optimizer.learning_rat'; did you mean "
                          "'optimizer.learning_rate'?"));
  EXPECT_THAT(f.load("\n[optimzer]\nlearning_rate = 1\n"),
              ElementsAre("run.toml:2:2: unknown section [optimzer]; did you mean [optimizer]?"));
  EXPECT_THAT(f.load("[optimizer.warmupp]\nsteps = 1\n"),
              ElementsAre("run.toml:1:12: unknown section [optimizer.warmupp]; did you mean "
                          "[optimizer.warmup]?"));
}

TEST(LoadToml, AKeyInTheWrongSectionIsShownTheRightOne) {
  TestOptions f;
  EXPECT_THAT(f.load("[loader]\nmomentum = 1\n"),
              ElementsAre("run.toml:2:1: unknown key 'loader.momentum'; did you mean "
                          "'optimizer.momentum'?"));
  EXPECT_THAT(f.load("threads = 1\n"),
              ElementsAre("run.toml:1:1: unknown key 'threads'; did you mean 'loader.threads'?"));
}

TEST(LoadToml, WhereNothingIsNearTheKnownOnesAreListed) {
  TestOptions f;
  EXPECT_THAT(f.load("[loader]\nzzz = 1\n"),
              ElementsAre("run.toml:2:1: unknown key 'loader.zzz'; the keys of [loader] are "
                          "threads, path, patience"));
  EXPECT_THAT(f.load("[zzz]\na = 1\n"),
              ElementsAre("run.toml:1:2: unknown section [zzz]; the sections are optimizer, "
                          "optimizer.warmup, loader"));
  EXPECT_THAT(
      f.load("zzzzzzz = 1\n"),
      ElementsAre("run.toml:1:1: unknown key 'zzzzzzz'; the keys outside any section are seed"));
}

TEST(LoadToml, WrongTypesSayWhatIsWanted) {
  TestOptions f;
  EXPECT_THAT(
      f.load("[loader]\n"
             "threads = \"two\"\n"
             "path = 3\n"
             "patience = true\n"
             "[optimizer]\n"
             "nesterov = 1\n"
             "momentum = \"0.9\"\n"
             "milestones = 10\n"
             "factors = [1.0, 'x', 2]\n"
             "learning_rate.x = 1\n"),
      ElementsAre("run.toml:2:11: loader.threads wants a whole number, not text",
                  "run.toml:3:8: loader.path wants text in quotes, not a whole number",
                  "run.toml:4:12: loader.patience wants a length of time such as \"30s\", not true "
                  "or false",
                  "run.toml:6:12: optimizer.nesterov wants true or false, not a whole number",
                  "run.toml:7:12: optimizer.momentum wants a number, not text",
                  "run.toml:8:14: optimizer.milestones wants a list of whole numbers such as [1, "
                  "2], not a whole number",
                  "run.toml:9:17: optimizer.factors wants a number, not text",
                  "run.toml:10:1: optimizer.learning_rate wants a number, not a table"));
}

TEST(LoadToml, AFractionIsNoWholeNumber) {
  TestOptions f;
  EXPECT_THAT(f.load("[loader]\nthreads = 2.0\n"),
              ElementsAre("run.toml:2:11: loader.threads wants a whole number, not a number with a "
                          "point or exponent"));
}

TEST(LoadToml, ValuesOutOfRangeShowValueAndRange) {
  TestOptions f;
  EXPECT_THAT(
      f.load("[loader]\nthreads = 257\npatience = 0.5\n"
             "[optimizer]\nlearning_rate = 0\nmilestones = [1, 0]\nfactors = [-0.5]\n"),
      ElementsAre("run.toml:2:11: loader.threads = 257 is out of range; allowed is from 0 to 256",
                  "run.toml:3:12: loader.patience = 500ms is out of range; allowed is from 1s to "
                  "1h",
                  "run.toml:5:17: optimizer.learning_rate = 0 is out of range; allowed is above 0, "
                  "at most 10",
                  "run.toml:6:18: optimizer.milestones = 0 is out of range; allowed is 1 or more",
                  "run.toml:7:12: optimizer.factors = -0.5 is out of range; allowed is 0 or more"));
}

TEST(LoadToml, TheEndsOfARangeAreInsideIt) {
  TestOptions f;
  EXPECT_THAT(f.load("[loader]\nthreads = 256\npatience = 3600\n"
                     "[optimizer]\nlearning_rate = 10.0\nfactors = [0]\n"),
              IsEmpty());
  EXPECT_THAT(f.load("[loader]\nthreads = 0\npatience = '1s'\n"), IsEmpty());
}

TEST(LoadToml, OnlyFiniteNumbersAreNumbers) {
  for (const std::string_view bad : {"nan", "inf", "-inf", "+nan"}) {
    TestOptions f;
    EXPECT_THAT(f.load(fmt::format("[optimizer]\nmomentum = {}\n", bad)),
                ElementsAre(HasSubstr("write a finite number")))
        << bad;
    EXPECT_THAT(f.load(fmt::format("[loader]\npatience = {}\n", bad)),
                ElementsAre(HasSubstr("run.toml:2:12: loader.patience: ")))
        << bad;
    EXPECT_EQ(f.optimizer.momentum, 0.9);
  }
}

TEST(LoadToml, AChoiceOutsideTheListShowsTheList) {
  TestOptions f;
  EXPECT_THAT(f.load("[optimizer]\nkind = \"adamv\"\n"),
              ElementsAre("run.toml:2:8: optimizer.kind = \"adamv\" is not allowed; choose "
                          "\"sgd\", \"adamw\" or \"a|b\"; did you mean \"adamw\"?"));
  EXPECT_THAT(f.load("[optimizer]\nkind = \"lion\"\n"),
              ElementsAre("run.toml:2:8: optimizer.kind = \"lion\" is not allowed; choose \"sgd\", "
                          "\"adamw\" or \"a|b\""));
}

TEST(LoadToml, EveryProblemIsReportedInTheOrderOfTheFile) {
  TestOptions f;
  const auto problems = f.set.load_toml(
      "[loader]\nzzz = 1\nthreads = -1\n[optimizer]\nmomentum = 0.5\nkind = 1\n[aaa]\n", "x");
  std::vector<int> lines;
  for (const Problem& problem : problems) lines.push_back(problem.line);
  EXPECT_THAT(lines, ElementsAre(2, 3, 6, 7));
}

TEST(LoadToml, AFieldWithAProblemKeepsItsValue) {
  TestOptions f;
  EXPECT_EQ(f.load("[loader]\nthreads = 999\n[optimizer]\nfactors = [-1, 3]\nkind = 'x'\n").size(),
            3u);
  EXPECT_EQ(f.loader.threads, 2);
  EXPECT_THAT(f.optimizer.factors, ElementsAre(0.1, 1.0));
  EXPECT_EQ(f.optimizer.kind, "sgd");
}

TEST(LoadToml, SyntaxErrorsHaveAPlace) {
  for (const std::string_view bad :
       {"[loader]\nthreads = = 2\n", "[loader]\nthreads = 2\nthreads = 3\n", "[loader\n",
        "[loader]\npath = \"\xff\"\n", "[loader]\npath = \"open\n", "[loader]\n[loader]\n",
        "[loader]\nthreads = 99999999999999999999\n", "[optimizer]\nmomentum = 1e999\n"}) {
    TestOptions f;
    const auto problems = f.set.load_toml(bad, "run.toml");
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_GT(problems[0].line, 0) << bad;
    EXPECT_GT(problems[0].column, 0) << bad;
    EXPECT_THAT(problems[0].to_string(), HasSubstr("not valid TOML: ")) << bad;
    EXPECT_EQ(f.loader.threads, 2) << bad;
  }
}

TEST(LoadToml, ASectionIsNoValueAndNoList) {
  TestOptions f;
  EXPECT_THAT(f.load("loader = 3\n"), ElementsAre(HasSubstr("1:1: 'loader' is a section")));
  EXPECT_THAT(f.load("[[loader]]\nthreads = 3\n"),
              ElementsAre(HasSubstr("1:3: 'loader' is a section")));
  EXPECT_EQ(f.loader.threads, 2);
}

TEST(LoadToml, AQuotedDotIsNoSection) {
  TestOptions f;
  EXPECT_THAT(f.load("\"loader.threads\" = 3\n"),
              ElementsAre(HasSubstr("did you mean 'loader.threads'?")));
  EXPECT_THAT(f.load("[\"optimizer.warmup\"]\nsteps = 3\n"),
              ElementsAre(HasSubstr("did you mean [optimizer.warmup]?")));
  EXPECT_EQ(f.optimizer.warmup.steps, 100);
  EXPECT_EQ(f.loader.threads, 2);
}

TEST(LoadToml, AHostileKeyKeepsTheMessageOnOneLine) {
  TestOptions f;
  const auto lines = f.load("\"a\\nb\\u001b[2J\" = 3\n[\"x\\ny\"]\n");
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  }
}

TEST(LoadToml, AZeroCharacterIsRefused) {
  TestOptions f;
  EXPECT_THAT(f.load("[loader]\npath = \"a\\u0000b\"\n"), ElementsAre(HasSubstr("2:8: loader")));
  EXPECT_EQ(f.loader.path, "data");
}

TEST(Set, TakesTomlOrBareText) {
  TestOptions f;
  EXPECT_EQ(f.assign("loader.threads=8"), "");
  EXPECT_EQ(f.assign(" optimizer.learning_rate = 0.5 "), "");
  EXPECT_EQ(f.assign("optimizer.nesterov=true"), "");
  EXPECT_EQ(f.assign("optimizer.milestones=[1, 2]"), "");
  EXPECT_EQ(f.assign("optimizer.warmup.steps=3"), "");
  EXPECT_EQ(f.assign("loader.patience=5m"), "");
  EXPECT_EQ(f.assign("optimizer.kind=adamw"), "");
  EXPECT_EQ(f.assign("loader.path=/a b/c=d"), "");
  EXPECT_EQ(f.assign("seed=-3"), "");
  EXPECT_EQ(f.loader.threads, 8);
  EXPECT_EQ(f.optimizer.learning_rate, 0.5);
  EXPECT_TRUE(f.optimizer.nesterov);
  EXPECT_THAT(f.optimizer.milestones, ElementsAre(1, 2));
  EXPECT_EQ(f.optimizer.warmup.steps, 3);
  EXPECT_EQ(f.loader.patience, Milliseconds(300'000));
  EXPECT_EQ(f.optimizer.kind, "adamw");
  EXPECT_EQ(f.loader.path, "/a b/c=d");
  EXPECT_EQ(f.seed, -3);
}

TEST(Set, TextMayBeQuotedNumericOrEmpty) {
  TestOptions f;
  EXPECT_EQ(f.assign("loader.path=\"a\\tb\""), "");
  EXPECT_EQ(f.loader.path, "a\tb");
  EXPECT_EQ(f.assign("loader.path='x'"), "");
  EXPECT_EQ(f.loader.path, "x");
  EXPECT_EQ(f.assign("loader.path=12"), "");
  EXPECT_EQ(f.loader.path, "12");
  EXPECT_EQ(f.assign("loader.path=true"), "");
  EXPECT_EQ(f.loader.path, "true");
  EXPECT_EQ(f.assign("loader.path="), "");
  EXPECT_EQ(f.loader.path, "");
  EXPECT_EQ(f.assign("loader.path=back\\slash \"and\" quotes"), "");
  EXPECT_EQ(f.loader.path, "back\\slash \"and\" quotes");
}

TEST(Set, ProblemsNameTheAssignment) {
  TestOptions f;
  EXPECT_EQ(f.assign("loader.threads=two"),
            "--set: \"loader.threads=two\": loader.threads wants a whole number, and cannot read "
            "two");
  EXPECT_EQ(f.assign("loader.threads=1.5"),
            "--set: \"loader.threads=1.5\": loader.threads wants a whole number, not a number with "
            "a point or exponent");
  EXPECT_EQ(f.assign("loader.threads=300"),
            "--set: \"loader.threads=300\": loader.threads = 300 is out of range; allowed is from "
            "0 to 256");
  EXPECT_THAT(f.assign("optimizer.kind=adam"), HasSubstr("did you mean \"adamw\"?"));
  EXPECT_THAT(f.assign("loader.patience=soon"), HasSubstr("\"soon\" is no length of time"));
  EXPECT_EQ(f.assign("loader.threads"), "--set: \"loader.threads\": wants key=value");
  EXPECT_THAT(f.assign("loader.path='open"), HasSubstr("loader.path wants text"));
  EXPECT_EQ(f.loader.threads, 2);
  EXPECT_EQ(f.loader.path, "data");
}

TEST(Set, UnknownKeysAreShownTheNearest) {
  TestOptions f;
  EXPECT_THAT(f.assign("loader.thread=1"), HasSubstr("did you mean 'loader.threads'?"));
  EXPECT_THAT(f.assign("optimzer.momentum=1"), HasSubstr("did you mean 'optimizer.momentum'?"));
  EXPECT_THAT(f.assign("momentum=1"), HasSubstr("did you mean 'optimizer.momentum'?"));
  EXPECT_THAT(f.assign("loader=1"), HasSubstr("it is a section with the keys threads, path"));
  EXPECT_THAT(f.assign("nowhere.zzz=1"), HasSubstr("the sections are optimizer, "));
  EXPECT_THAT(f.assign("=1"), HasSubstr("unknown key ''"));
}

TEST(Set, AValueCannotBringASecondKeyAlong) {
  TestOptions f;
  EXPECT_NE(f.assign("loader.threads=3\nother = 4"), "");
  EXPECT_NE(f.assign("loader.threads=3\n[loader]"), "");
  EXPECT_EQ(f.loader.threads, 2);
}

TEST(Set, TextThatIsNoUtf8IsRefused) {
  TestOptions f;
  EXPECT_NE(f.assign("loader.path=\xff\xfe"), "") << "a run file could not hold it";
  EXPECT_EQ(f.loader.path, "data");
}

TEST(OptionSetDeathTest, TheSameKeyTwiceIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  OptionSet set;
  int64_t field = 0;
  set.add("a", &field, {});
  EXPECT_DEATH(set.add("a", &field, {}), "CHECK");
}

}  // namespace
}  // namespace tern
