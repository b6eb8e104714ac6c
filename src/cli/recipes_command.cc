#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "cli/command.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern recipes: list the recipes, which are complete, named run files.

  tern recipes                a name, what it trains, and what to expect of it
  tern train NAME             trains it
  tern init NAME > my.toml    writes it out, to edit

Recipes are looked for beside tern and, first, in the folder $TERN_RECIPES.
)";

// A recipe introduces itself in its first lines: "# name: what it trains" and, if it was measured,
// "# reference: what to expect".
std::string introduction(const std::filesystem::path& path, std::string_view word) {
  std::ifstream file(path);
  std::string line;
  const std::string start = fmt::format("# {}: ", word);
  for (int number = 0; number < 2 && std::getline(file, line); ++number) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "";
}

}  // namespace

std::string format_recipes(const std::vector<Recipe>& recipes) {
  size_t width = 0;
  for (const Recipe& recipe : recipes) width = std::max(width, recipe.name.size());
  std::string text;
  std::vector<std::string> folders;
  for (const Recipe& recipe : recipes) {
    const std::string what = introduction(recipe.path, recipe.name);
    const std::string expect = introduction(recipe.path, "reference");
    text += fmt::format("  {:<{}}  {}\n", recipe.name, width,
                        what.empty() ? "(does not say what it trains)" : what);
    if (!expect.empty()) text += fmt::format("  {:<{}}  {}\n", "", width, expect);
    const std::string folder = recipe.path.parent_path().string();
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  }
  for (const std::string& folder : folders) text += fmt::format("\nThey are in {}.", folder);
  return text + "\nTrain one with `tern train NAME`; `tern init NAME` prints it to edit.\n";
}

Result<int> recipes_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool names = false;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--names", names);  // for completion
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern recipes --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  const std::vector<Recipe> recipes = surroundings.list_recipes();
  if (names) {
    for (const Recipe& recipe : recipes) fmt::print("{}\n", recipe.name);
    return kExitDone;
  }
  if (recipes.empty()) {
    std::string looked;
    for (const auto& folder : recipe_folders(surroundings.executable, surroundings.recipes)) {
      looked += fmt::format("\n  {}", folder.string());
    }
    return fail(Code::not_found, fmt::format("no recipes found; set TERN_RECIPES to the folder "
                                             "they are in. Looked in{}",
                                             looked));
  }
  fmt::print("{}", format_recipes(recipes));
  return kExitDone;
}

}  // namespace tern
