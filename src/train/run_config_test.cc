#include "train/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "train/train_flags.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class RunConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "run_config_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    before_ = fs::current_path();
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  static void write(const fs::path& path, std::string_view text) {
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  // Loads `text` as my.toml and returns the problems as people see them.
  std::vector<std::string> problems_of(std::string_view text,
                                       std::vector<std::string> assignments = {}) {
    write("my.toml", text);
    std::vector<Problem> problems;
    config_ =
        load_run_config({.file = "my.toml", .assignments = std::move(assignments)}, {}, problems);
    EXPECT_EQ(config_.has_value(), problems.empty());
    if (!config_) {
      EXPECT_EQ(config_.error().code, Code::invalid);
    }
    std::vector<std::string> lines;
    for (const Problem& problem : problems) lines.push_back(problem.to_string());
    return lines;
  }

  fs::path folder_;
  fs::path before_;
  Result<RunConfig> config_ = fail(Code::internal, "not loaded");
};

TEST_F(RunConfigTest, AnEmptyFileIsARunWithDefaultsNamedAfterTheFile) {
  EXPECT_THAT(problems_of(""), IsEmpty());
  EXPECT_EQ(config_->recipe, "my");
  EXPECT_EQ(config_->train.batch, TrainOptions{}.batch);
}

TEST_F(RunConfigTest, TheFileSaysWhatTheRunIsCalled) {
  EXPECT_THAT(problems_of("recipe = \"mine\"\n"), IsEmpty());
  EXPECT_EQ(config_->recipe, "mine");
}

TEST_F(RunConfigTest, EveryProblemIsReportedAtOnceWithItsPlace) {
  const std::string text =
      "[optimizer]\n"
      "learning_rat = 0.1\n"
      "momentum = \"much\"\n"
      "[train]\n"
      "  epochs = 0\n"
      "[model]\n"
      "dropout = 0.5\n"
      "name = \"cifar-tutorial\"\n"
      "[data]\n"
      "format = \"cifar10\"\n";
  EXPECT_THAT(problems_of(text),
              testing::UnorderedElementsAre(
                  AllOf(StartsWith("my.toml:2:1: "), HasSubstr("'optimizer.learning_rate'")),
                  AllOf(StartsWith("my.toml:3:12: "), HasSubstr("optimizer.momentum")),
                  AllOf(StartsWith("my.toml:5:12: "), HasSubstr("train.epochs = 0")),
                  AllOf(StartsWith("my.toml: "), HasSubstr("model.dropout"))));
}

TEST_F(RunConfigTest, ASyntaxErrorHasItsPlace) {
  EXPECT_THAT(problems_of("[train]\nepochs = = 3\n"), ElementsAre(StartsWith("my.toml:2:10: ")));
}

TEST_F(RunConfigTest, AnOptionWithAProblemOfItsOwnIsNotBlamedForConflictsToo) {
  // The run has 10 epochs in its author's mind; the drop is no mistake.
  EXPECT_THAT(problems_of("[train]\nepochs = \"10\"\n"
                          "[schedule]\nshape = \"step\"\ndrop_epochs = [8]\n"),
              ElementsAre(HasSubstr("train.epochs")));
}

TEST_F(RunConfigTest, AssignmentsWinOverTheFileAndTheLastOneWins) {
  EXPECT_THAT(problems_of("[train]\nepochs = 3\nbatch = 7\n",
                          {"train.epochs=4", "train.epochs=5", "data.path=/data/x"}),
              IsEmpty());
  EXPECT_EQ(config_->train.epochs, 5);
  EXPECT_EQ(config_->train.batch, 7);
  EXPECT_EQ(config_->data.path, "/data/x");
}

TEST_F(RunConfigTest, ProblemsOfAssignmentsAreListedWithThoseOfTheFile) {
  EXPECT_THAT(problems_of("typo = 1\n", {"train.epoch=4", "train.batch=-1", "nonsense"}),
              ElementsAre(StartsWith("my.toml:1:1: "), HasSubstr("'train.epochs'"),
                          HasSubstr("train.batch"), HasSubstr("nonsense")));
}

TEST_F(RunConfigTest, StepsWinsOverFileAndAssignments) {
  write("my.toml", "[train]\nsteps = 3\n");
  std::vector<Problem> problems;
  TrainRequest request{.file = "my.toml", .assignments = {"train.steps=4"}};
  EXPECT_EQ(load_run_config(request, {}, problems)->train.steps, 4);
  request.steps = 5;
  EXPECT_EQ(load_run_config(request, {}, problems)->train.steps, 5);
  request.steps = 0;
  EXPECT_EQ(load_run_config(request, {}, problems)->train.steps, 0);
}

TEST_F(RunConfigTest, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [this](std::string_view text) { return problems_of(text).size() == 1; };
  EXPECT_TRUE(refused("[optimizer]\nnesterov = true\nmomentum = 0\n"));
  EXPECT_TRUE(refused("[schedule]\nwarmup_epochs = 1.5\n"));
  EXPECT_TRUE(refused("[train]\nepochs = 9\n[schedule]\ndrop_epochs = [2]\n"));
  EXPECT_TRUE(refused("[schedule]\nshape = \"step\"\n"));
  const std::string step = "[train]\nepochs = 9\n[schedule]\nshape = \"step\"\ndrop_epochs = ";
  EXPECT_TRUE(refused(step + "[4, 2]\n"));
  EXPECT_TRUE(refused(step + "[2, 2]\n"));
  EXPECT_TRUE(refused(step + "[2, 9]\n"));
  EXPECT_TRUE(refused("[model]\nname = \"cifar-tutorial\"\n"));
  EXPECT_TRUE(refused("[data]\nformat = \"cifar10\"\nclasses = 100\n"));
  EXPECT_TRUE(refused("recipe = \"../etc\"\n"));
  EXPECT_TRUE(refused("recipe = \"..\"\n"));
  EXPECT_TRUE(refused("recipe = \"a\\nb\"\n"));
}

TEST_F(RunConfigTest, WhatFitsTogetherIsNot) {
  EXPECT_THAT(problems_of("[schedule]\nwarmup_epochs = 1\n"), IsEmpty());
  EXPECT_THAT(problems_of("[train]\nepochs = 9\n[schedule]\nshape = \"step\"\n"
                          "drop_epochs = [0, 8]\n"),
              IsEmpty());
  EXPECT_THAT(problems_of("[optimizer]\nnesterov = true\nmomentum = 0.9\n"), IsEmpty());
}

TEST_F(RunConfigTest, TheCopyKeptWithARunReadsBackTheSame) {
  EXPECT_THAT(problems_of("[train]\nepochs = 9\n[schedule]\nshape = \"step\"\n"
                          "drop_epochs = [3, 8]\n[checkpoint]\nevery = \"90s\"\n"),
              IsEmpty());
  const std::string copy = describe_run(*config_).to_toml(OptionSet::Comments::no);
  EXPECT_THAT(problems_of(copy), IsEmpty());
  EXPECT_EQ(describe_run(*config_).to_toml(OptionSet::Comments::no), copy);
}

TEST_F(RunConfigTest, AFileThatCannotBeReadIsNamed) {
  fs::create_directories("folder.toml");
  std::ofstream("large.toml") << std::string((1 << 20) + 1, '#');
  std::vector<Problem> problems;
  const auto code = [&](const char* file) {
    return load_run_config({.file = file}, {}, problems).error().code;
  };
  EXPECT_EQ(code("missing.toml"), Code::not_found);
  EXPECT_EQ(code("./missing"), Code::not_found);
  EXPECT_EQ(code("folder.toml"), Code::invalid);
  EXPECT_EQ(code("large.toml"), Code::invalid);
  EXPECT_EQ(code("/dev/zero"), Code::invalid);
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(RunConfigTest, AFileOfTheLargestSizeIsRead) {
  EXPECT_THAT(problems_of(std::string(1 << 20, '#')), IsEmpty());
}

TEST_F(RunConfigTest, ARecipeIsFoundByNameInTheFirstFolderThatHasIt) {
  write("first/a.toml", "[train]\nepochs = 1\n");
  write("second/a.toml", "[train]\nepochs = 2\n");
  write("second/b.toml", "[train]\nepochs = 3\n");
  write("second/readme.txt", "");
  const std::vector<Recipe> recipes = list_recipes({"nowhere", "first", "second"});
  ASSERT_THAT(recipes, SizeIs(2));
  EXPECT_EQ(recipes[0].name, "a");
  EXPECT_EQ(*find_run_file("a", recipes), "first/a.toml");
  EXPECT_EQ(*find_run_file("b", recipes), "second/b.toml");

  std::vector<Problem> problems;
  const Result<RunConfig> config = load_run_config({.file = "b"}, recipes, problems);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->recipe, "b");
  EXPECT_EQ(config->train.epochs, 3);
}

TEST_F(RunConfigTest, AFileWinsOverARecipeOfItsNameAndAFolderDoesNot) {
  write("recipes/a.toml", "");
  write("recipes/b.toml", "");
  write("a", "");
  fs::create_directories("b");
  const std::vector<Recipe> recipes = list_recipes({"recipes"});
  EXPECT_EQ(*find_run_file("a", recipes), "a");
  EXPECT_EQ(*find_run_file("b", recipes), "recipes/b.toml");
}

TEST_F(RunConfigTest, AMistypedRecipeGetsTheNearestOne) {
  write("recipes/fashion-mnist.toml", "");
  const auto found = find_run_file("fashion-mnsit", list_recipes({"recipes"}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::not_found);
  EXPECT_THAT(found.error().message, HasSubstr("did you mean fashion-mnist?"));
}

TEST_F(RunConfigTest, BothProgramsLookForRecipesInTheSamePlaces) {
  EXPECT_EQ(recipe_folders("/opt/tern/tern", "/given"),
            recipe_folders("/opt/tern/libexec/tern-train", "/given"));
  EXPECT_EQ(recipe_folders("/opt/tern/tern", "/given").front(), "/given");
  EXPECT_THAT(recipe_folders("/usr/bin/tern", ""),
              testing::Contains(fs::path("/usr/share/tern/recipes")));
  EXPECT_THAT(recipe_folders("/usr/libexec/tern-train", ""),
              testing::Contains(fs::path("/usr/share/tern/recipes")));
  EXPECT_THAT(recipe_folders("/src/build/release/tern", ""),
              testing::Not(testing::Contains(fs::path("/src/recipes"))));

  write("build/release/CMakeCache.txt", "");
  EXPECT_THAT(recipe_folders(folder_ / "build/release/libexec/tern-train", ""),
              testing::Contains(folder_ / "recipes"));
}

TEST_F(RunConfigTest, ANameStandsForAFolderUnderRuns) {
  EXPECT_EQ(*parse_run_folder("demo"), "runs/demo");
  EXPECT_EQ(*parse_run_folder("runs/demo"), "runs/demo");
  EXPECT_EQ(*parse_run_folder("./demo"), "./demo");
  EXPECT_EQ(*parse_run_folder("."), ".");
  EXPECT_EQ(*parse_run_folder("file:///var/run1"), "/var/run1");

  fs::create_directories("demo");  // somebody's folder, no run
  EXPECT_EQ(*parse_run_folder("demo"), "runs/demo");
  fs::create_directories("demo/checkpoints");
  EXPECT_EQ(*parse_run_folder("demo"), "demo");
  fs::create_directories("runs/demo");  // a run that has begun stays where it is
  EXPECT_EQ(*parse_run_folder("demo"), "runs/demo");
}

TEST_F(RunConfigTest, AFolderThatIsNotOnThisMachineIsRefused) {
  for (const char* text :
       {"s3://bucket/run", "gs://bucket/run", "ftp://x/y", "file://", "file://relative", ""}) {
    const auto folder = parse_run_folder(text);
    ASSERT_FALSE(folder) << text;
    EXPECT_EQ(folder.error().code, Code::invalid);
  }
}

TEST_F(RunConfigTest, ARunMayBeInABucketBelowAPrefix) {
  const auto place = parse_run_place("s3://bucket/runs/demo/");
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->is_folder());
  EXPECT_EQ(place->to_string(), "s3://bucket/runs/demo");
  EXPECT_EQ(parse_run_place("demo")->to_string(), "runs/demo");
  EXPECT_EQ(parse_run_place("file:///var/run1")->to_string(), "/var/run1");
  for (const char* text : {"s3://bucket", "s3://bucket/", "ftp://x/y", "az://account/run", ""}) {
    ASSERT_FALSE(parse_run_place(text)) << text;
    EXPECT_EQ(parse_run_place(text).error().code, Code::invalid) << text;
  }
}

TEST_F(RunConfigTest, ANewRunHasNoControlCharactersInItsName) {
  for (const char* text : {"a\nb", "runs/a\tb", "file:///nowhere/\x1b[31m", "\x7f"}) {
    const auto folder = parse_run_folder(text);
    ASSERT_FALSE(folder) << text;
    EXPECT_EQ(folder.error().code, Code::invalid);
  }
  fs::create_directories("runs/a\nb");
  EXPECT_EQ(*parse_run_folder("a\nb"), "runs/a\nb") << "it is there, and may be removed";
}

TEST_F(RunConfigTest, ARunFolderIsNamedAfterTheRecipeUnlessGiven) {
  RunConfig config;
  config.recipe = "mine";
  EXPECT_EQ(run_place({}, config)->to_string(), "runs/mine");
  EXPECT_EQ(run_place({.run = "demo"}, config)->to_string(), "runs/demo");
  EXPECT_EQ(run_place({.run = "/tmp/x"}, config)->to_string(), "/tmp/x");
  EXPECT_TRUE(run_place({.run = "/tmp/x"}, config)->is_folder());
}

TEST(TrainFlags, AreReadInAnyOrder) {
  const auto request =
      parse_train_flags({"--set", "schedule.drop_epochs=[1, 2]", "my.toml", "--set=a=b=c", "--run",
                         "demo", "--steps", "7", "--halt-file", "preempt.txt", "--fresh", "--from",
                         "old@12", "--ranks", "3", "--on-event", "echo $TERN_EVENT; date"});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->file, "my.toml");
  EXPECT_EQ(request->run, "demo");
  EXPECT_THAT(request->assignments, ElementsAre("schedule.drop_epochs=[1, 2]", "a=b=c"));
  EXPECT_EQ(request->steps, 7);
  EXPECT_EQ(request->halt_file, "preempt.txt");
  EXPECT_EQ(request->from, "old@12");
  EXPECT_EQ(request->on_event, "echo $TERN_EVENT; date");
  EXPECT_EQ(request->ranks, 3);
  EXPECT_TRUE(request->fresh);
}

TEST(TrainFlags, HaveDefaultsThatSayNotGiven) {
  const auto request = parse_train_flags({"my.toml"});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->steps, -1);
  EXPECT_EQ(request->run, "");
  EXPECT_EQ(request->from, "");
  EXPECT_EQ(request->on_event, "");
  EXPECT_THAT(request->assignments, IsEmpty());
  EXPECT_FALSE(request->fresh);
}

TEST(TrainFlags, AMistypedFlagGetsTheNearestOne) {
  const auto request = parse_train_flags({"my.toml", "--stepz=5"});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, Code::invalid);
  EXPECT_THAT(request.error().message, HasSubstr("unknown flag --stepz (did you mean --steps?)"));
  EXPECT_THAT(request.error().message, HasSubstr("tern train --help"));
}

TEST(TrainFlags, WrongOrMissingValuesAreRefused) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"a", "b"},
                                                       {"a", "--steps", "-5"},
                                                       {"a", "--run", ""},
                                                       {"a", "--from", ""},
                                                       {"a", "--on-event", ""},
                                                       {"a", "--halt-file", ""},
                                                       {"a", "--steps", "2.5"},
                                                       {"a", "--ranks", "0"},
                                                       {"a", "--ranks", "two"},
                                                       {"a", "--ranks", "1025"},
                                                       {"a", "--steps"},
                                                       {"a", "--set"},
                                                       {"a", "--run"},
                                                       {"a", "--steps", "99999999999999999999"}};
  for (const auto& arguments : wrong) {
    const auto request = parse_train_flags(arguments);
    ASSERT_FALSE(request) << testing::PrintToString(arguments);
    EXPECT_EQ(request.error().code, Code::invalid);
  }
}

constexpr char kResnet[] = "train.epochs = 4\nmodel.name = 'resnet18'\nimage.size = 32\n";

TEST_F(RunConfigTest, RanksMustFitTogether) {
  EXPECT_THAT(problems_of("[ranks]\ncount = 4\nmin = 2\nmax = 3\n"), IsEmpty());
  EXPECT_THAT(problems_of("[ranks]\ncount = 2\nmin = 3\n"), IsEmpty());  // other machines have some
  EXPECT_THAT(problems_of("[ranks]\ncount = 4\nmin = 3\nmax = 2\n"), SizeIs(1));
  EXPECT_THAT(problems_of("[ranks]\nheartbeat = 5\ntimeout = 10\n"), SizeIs(1));
}

TEST_F(RunConfigTest, PhasesThatFollowEachOtherAreTaken) {
  EXPECT_THAT(problems_of(std::string(kResnet) + R"(
schedule.shape = "pieces"
[[data_phase]]
epochs = [0, 3]
image_size = 128
batch = 512
[[data_phase]]
epochs = [3, 4]
image_size = 288
batch = 128
rectangular = "yes"
[[lr_phase]]
epochs = [0, 0.5]
rate = [0, 2]
[[lr_phase]]
epochs = [0.5, 4]
rate = [2, 0]
)"),
              IsEmpty());
  EXPECT_THAT(config_->data_phase, SizeIs(2));
  EXPECT_EQ(config_->lr_phase[1].epochs[0], 0.5);
}

TEST_F(RunConfigTest, PhasesThatOverlapOrLeaveAGapAreRefused) {
  const auto with_phases = [&](std::string_view first, std::string_view second) {
    return problems_of(std::string(kResnet) + "[[data_phase]]\nepochs = " + std::string(first) +
                       "\n[[data_phase]]\nepochs = " + std::string(second) + "\n");
  };
  EXPECT_THAT(with_phases("[0, 2]", "[2, 4]"), IsEmpty());
  EXPECT_THAT(with_phases("[0, 2]", "[3, 4]"), ElementsAre(HasSubstr("leaves a gap")));
  EXPECT_THAT(with_phases("[0, 3]", "[2, 4]"), ElementsAre(HasSubstr("overlaps")));
  EXPECT_THAT(with_phases("[1, 2]", "[2, 4]"), ElementsAre(HasSubstr("the run begins at 0")));
  EXPECT_THAT(with_phases("[0, 2]", "[2, 5]"), ElementsAre(HasSubstr("train.epochs is 4")));
  EXPECT_THAT(with_phases("[0, 2]", "[2, 3]"), ElementsAre(HasSubstr("train.epochs is 4")));
  EXPECT_THAT(with_phases("[0]", "[0, 4]"), ElementsAre(HasSubstr("wants two numbers")));
  EXPECT_THAT(with_phases("[2, 0]", "[0, 4]"), ElementsAre(HasSubstr("wants two numbers")));
}

TEST_F(RunConfigTest, PhasesOfSeveralSizesNeedANetworkThatTakesThem) {
  const std::string phases =
      "train.epochs = 2\n[[data_phase]]\nepochs = [0, 1]\nimage_size = 32\n"
      "[[data_phase]]\nepochs = [1, 2]\nimage_size = 48\n";
  EXPECT_THAT(problems_of("model.name = 'small-cnn'\n" + phases),
              ElementsAre(HasSubstr("choose a resnet")));
  EXPECT_THAT(problems_of("model.name = 'resnet18'\n" + phases), IsEmpty());
}

TEST_F(RunConfigTest, PiecesOfTheRateNeedTheirShapeAndTheOtherWayRound) {
  EXPECT_THAT(problems_of("schedule.shape = 'pieces'\n"), ElementsAre(HasSubstr("add one")));
  EXPECT_THAT(problems_of("[[lr_phase]]\nepochs = [0, 1]\nrate = [1]\n"),
              ElementsAre(HasSubstr("needs schedule.shape")));
  EXPECT_THAT(
      problems_of("schedule.shape = 'pieces'\n[[lr_phase]]\nepochs = [0, 1]\nrate = [1, 2, 3]\n"),
      ElementsAre(HasSubstr("rate wants one value")));
}

TEST_F(RunConfigTest, ABatchMustHaveAtLeastASampleForEachPiece) {
  EXPECT_THAT(problems_of("[train]\nbatch = 4\naccumulate = 8\n"),
              ElementsAre(HasSubstr("cannot be cut")));
}

}  // namespace
}  // namespace tern
