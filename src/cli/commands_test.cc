// What the commands say. That they do it is tested end to end, in tests/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cli/command_table.h"
#include "cli/test_run.h"
#include "train/train_flags.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kSource = TERN_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// ASCII only, so bytes are columns.
size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(Help, FitsAScreen) {
  const std::string help = kTernHelp;
  EXPECT_LE(std::ranges::count(help, '\n'), 23);  // and a line for the prompt
  EXPECT_LE(widest_line(help), 80U);
  EXPECT_LE(widest_line(kTrainHelp), 80U);
  EXPECT_LE(widest_line(kTrainTeach), 80U);
}

TEST(Help, OfTrainListsEveryFlag) {
  CLI::App app;
  app.set_help_flag();
  TrainRequest request;
  add_train_flags(app, request);
  for (const CLI::Option* option : app.get_options()) {
    EXPECT_THAT(kTrainHelp, HasSubstr("  " + option->get_name() + " "));
  }
}

TEST(Help, OfEveryCommandTeachesItsFlagsWithinEightyColumns) {
  for (const Command& command : command_table()) {
    if (command.hidden) continue;
    const std::string help = output_of([&] { return command.run({}, {"--help"}); });
    EXPECT_THAT(help, testing::StartsWith("tern " + std::string(command.name) + ": "));
    EXPECT_LE(widest_line(help), 80U) << command.name;
    for (const Flag& flag : command.flags) {
      if (!flag.hidden) {
        EXPECT_THAT(help, HasSubstr(std::string(flag.name))) << command.name;
      }
    }
  }
}

TEST(Help, OfEveryCommandOfAGroupTeachesItsFlagsWithinEightyColumns) {
  for (const Command& group : command_table()) {
    if (group.subcommands.empty()) continue;
    const std::string name = "tern " + std::string(group.name) + " ";
    const std::string overview = output_of([&] { return group.run({}, {}); });
    for (const Command& command : group.subcommands) {
      EXPECT_THAT(overview, HasSubstr(name + std::string(command.name)));
      const std::string help =
          output_of([&] { return group.run({}, {std::string(command.name), "--help"}); });
      EXPECT_THAT(help, testing::StartsWith(name + std::string(command.name) + ": "));
      EXPECT_LE(widest_line(help), 80U) << command.name;
      for (const Flag& flag : command.flags) {
        EXPECT_THAT(help, HasSubstr(std::string(flag.name))) << command.name;
      }
    }
  }
}

TEST(OptionHelp, ExplainsEveryOptionWithinEightyColumns) {
  RunConfig config;
  config.train.epochs = 7;
  const OptionSet set = describe_run(config);
  const std::string help = format_option_help(set);
  for (const OptionSet::Entry& entry : set.entries()) {
    EXPECT_THAT(help, HasSubstr("  " + entry.key + " = "));
  }
  EXPECT_THAT(help, HasSubstr("  train.epochs = 7\n"));
  EXPECT_LE(widest_line(help), 80U);
}

TEST(ConfigurationPage, IsInStepWithTheOptions) {
  EXPECT_EQ(read(kSource / "docs/configuration.md"), configuration_page())
      << "run: tern docs configuration > docs/configuration.md";
}

TEST(Recipes, OfTheSourceTreeAreValidAndIntroduceThemselves) {
  const std::vector<Recipe> recipes = list_recipes({kSource / "recipes"});
  EXPECT_FALSE(recipes.empty());
  for (const Recipe& recipe : recipes) {
    std::vector<Problem> problems;
    EXPECT_TRUE(load_run_config({.file = recipe.name}, recipes, problems)) << recipe.name;
    for (const Problem& problem : problems) ADD_FAILURE() << problem.to_string();
  }
  const std::string text = format_recipes(recipes);
  EXPECT_THAT(text, testing::ContainsRegex("  fashion-mnist +clothes"));
  EXPECT_THAT(text, HasSubstr((kSource / "recipes").string()));
  EXPECT_THAT(text, testing::Not(HasSubstr("does not say what it trains")));
}

TEST(Recipes, OneWithoutAnIntroductionIsListedAllTheSame) {
  EXPECT_THAT(format_recipes({{.name = "bare", .path = "/nowhere/bare.toml"}}),
              HasSubstr("  bare  (does not say what it trains)\n"));
}

}  // namespace
}  // namespace tern
