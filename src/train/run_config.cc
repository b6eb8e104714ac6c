#include "train/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "train/run_conflicts.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// A run file is a page or two; whatever is larger is some other file, named by mistake.
constexpr size_t kRunFileBytesMax = 1 << 20;

constexpr std::string_view kRunsFolder = "runs";

Result<std::string> read_run_file(const fs::path& path) {
  if (is_cloud_address(path.string())) {
    return fail(Code::invalid, fmt::format("{} is in a bucket, and run files are read from this "
                                           "machine; fetch it: `tern store cp {} .`",
                                           path.string(), path.string()));
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return fail(Code::not_found,
                fmt::format("no run file {}; `tern init RECIPE > {}` writes one to edit",
                            path.string(), path.filename().string()));
  }
  if (fs::is_directory(status)) {
    return fail(Code::invalid, fmt::format("{} is a folder; name a run file in it, or a recipe "
                                           "(`tern recipes` lists them)",
                                           path.string()));
  }
  // It is read twice, by tern and by tern-train, and a pipe gives its text only once.
  if (!fs::is_regular_file(status)) {
    return fail(Code::invalid,
                fmt::format("{} is no plain file; save the run file to one first", path.string()));
  }
  // The size is counted, not asked for: some files that look plain (in /proc) tell none.
  std::ifstream file(path, std::ios::binary);
  std::string text(kRunFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return fail(Code::permission_denied,
                fmt::format("cannot read {}; check its permissions", path.string()));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kRunFileBytesMax) {
    return fail(Code::invalid, fmt::format("{} has more than {} bytes, too many for a run file; "
                                           "`tern init RECIPE` prints one to begin with",
                                           path.string(), kRunFileBytesMax));
  }
  return text;
}

// Does one of the problems already speak of this key? The field then kept its default, and what a
// conflict says about it would be about a run that nobody described.
bool is_about(const std::vector<Problem>& problems, std::string_view key) {
  return std::ranges::any_of(problems, [key](const Problem& problem) {
    return problem.message.find(key) != std::string::npos;
  });
}

}  // namespace

OptionSet describe_run(RunConfig& config) {
  OptionSet set;
  set.add("recipe", &config.recipe,
          {.help = "What the run calls itself in lists and reports, and the name of its folder "
                   "under runs/ if --run is not given; empty takes the run file's name."});
  set.section("data", "What is learned from.", config.data);
  set.section("image", "Which part of an image the network sees, and how large.", config.image);
  set.section("augment", "How training samples are varied, anew in every epoch.", config.augment);
  set.section("loader", "How batches are made; changes speed and memory, never the result.",
              config.loader);
  set.section("model", "The network.", config.model);
  set.section("optimizer", "How weights follow gradients: SGD.", config.optimizer);
  set.section("schedule", "The learning rate over the run.", config.schedule);
  set.section("train", "How long, how much at once, and what is fixed for the run.", config.train);
  set.section("checkpoint", "How often the run is saved, and how much is kept.", config.checkpoint);
  set.section("lease", "When a process may take over a run from another machine.", config.lease);
  set.section("preempt", "Who is asked whether this machine will go.", config.preempt);
  set.section("ranks", "How many processes train together; docs/ranks.md explains them.",
              config.ranks);
  set.section("launch", "What is done on a machine before a launched run begins there.",
              config.launch);
  set.list("data_phase",
           "Stretches of epochs with their own image size, batch or data; none: one phase, as the "
           "rest says. docs/phases.md explains them.",
           config.data_phase);
  set.list("lr_phase", "Pieces of the learning rate, for schedule.shape = \"pieces\".",
           config.lr_phase);
  return set;
}

std::vector<fs::path> recipe_folders(const fs::path& executable, std::string_view given) {
  std::vector<fs::path> folders;
  if (!given.empty()) folders.emplace_back(given);
  fs::path home = executable.parent_path();
  if (home.filename() == "libexec") home = home.parent_path();
  folders.push_back(home / "recipes");
  folders.push_back(home / "share/tern/recipes");     // tern-train of an installed tern
  folders.push_back(home / "../share/tern/recipes");  // bin/tern of an installed tern
  // Only from a build folder, so that no installed tern takes recipes from some folder above it.
  std::error_code error;
  if (fs::exists(home / "CMakeCache.txt", error)) folders.push_back(home / "../../recipes");
  for (fs::path& folder : folders) folder = folder.lexically_normal();
  return folders;
}

std::vector<Recipe> list_recipes(const std::vector<fs::path>& folders) {
  std::map<std::string, fs::path> by_name;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator file(folder, error), end; !error && file != end;
         file.increment(error)) {
      const fs::path& path = file->path();
      std::error_code gone;
      if (path.extension() == ".toml" && file->is_regular_file(gone)) {
        by_name.emplace(path.stem().string(), path);
      }
    }
  }
  std::vector<Recipe> recipes;
  for (auto& [name, path] : by_name) recipes.push_back({name, path});
  return recipes;
}

Result<fs::path> find_run_file(const std::string& file, const std::vector<Recipe>& recipes) {
  std::error_code error;
  if (file.find('/') != std::string::npos || file.ends_with(".toml") ||
      (fs::exists(file, error) && !fs::is_directory(file, error))) {
    return fs::path(file);
  }
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes) {
    if (recipe.name == file) return recipe.path;
    names.push_back(recipe.name);
  }
  const std::optional<std::string> near = nearest_name(file, names);
  return fail(Code::not_found,
              fmt::format("no recipe and no run file '{}'; {}`tern recipes` lists the recipes",
                          file, near ? fmt::format("did you mean {}? ", *near) : ""));
}

Result<RunConfig> load_run_config(const TrainRequest& request, const std::vector<Recipe>& recipes,
                                  std::vector<Problem>& problems) {
  ASSIGN_OR_RETURN(const fs::path path, find_run_file(request.file, recipes));
  ASSIGN_OR_RETURN(const std::string text, read_run_file(path));

  RunConfig config;
  OptionSet set = describe_run(config);
  problems = set.load_toml(text, path.string());
  if (!request.init.empty()) config.model.init = request.init;
  for (const std::string& assignment : request.assignments) {
    if (std::optional<Problem> problem = set.set(assignment)) {
      problems.push_back(std::move(*problem));
    }
  }
  if (request.steps >= 0) config.train.steps = request.steps;
  if (request.ranks > 0) config.ranks.count = request.ranks;
  if (config.recipe.empty()) config.recipe = path.stem().string();

  const std::vector<Problem> found = problems;
  for (Conflict& conflict : find_conflicts(config)) {
    const auto is_known = [&found](std::string_view key) { return is_about(found, key); };
    if (std::ranges::any_of(conflict.keys, is_known)) continue;
    problems.push_back({.source = path.string(), .message = std::move(conflict.message)});
  }
  if (!problems.empty()) {
    return fail(Code::invalid,
                fmt::format("{} {} to mend first; `tern train --options` explains every option",
                            problems.size(), problems.size() == 1 ? "problem" : "problems"));
  }
  return config;
}

namespace {

Result<fs::path> resolve_run_folder(const std::string& text) {
  constexpr std::string_view kFileScheme = "file://";
  if (text.starts_with(kFileScheme)) {
    const std::string path = text.substr(kFileScheme.size());
    if (path.size() > 1 && path.front() == '/') return fs::path(path);
    return fail(
        Code::invalid,
        fmt::format("{} names no folder; write file:///absolute/path or a plain path", text));
  }
  if (text.find("://") != std::string::npos && !is_cloud_address(text)) {
    return parse_store_address(text).error();
  }
  if (is_cloud_address(text)) {
    return fail(Code::invalid,
                fmt::format("{} is no folder of this machine, which is needed here; give a path or "
                            "a name, or bring the run here first: `tern run copy {} DIR`",
                            text, text));
  }
  if (text.empty()) {
    return fail(Code::invalid, "the run folder's name is empty; give a path or a name");
  }
  if (text.find('/') != std::string::npos || text == "." || text == "..") return fs::path(text);

  // A run once begun under runs/ is found there again, whatever folders appear beside it.
  std::error_code error;
  const fs::path named = fs::path(kRunsFolder) / text;
  const bool is_a_run_here = fs::exists(fs::path(text) / "ledger.jsonl", error) ||
                             fs::exists(fs::path(text) / "checkpoints", error);
  if (!fs::exists(named, error) && is_a_run_here) return fs::path(text);
  return named;
}

}  // namespace

Result<fs::path> parse_run_folder(const std::string& text) {
  ASSIGN_OR_RETURN(fs::path folder, resolve_run_folder(text));
  // One that is there can still be reported on and removed.
  std::error_code error;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(text, is_control) && !fs::exists(folder, error)) {
    return fail(Code::invalid,
                "the run folder's name has a control character in it; give a plain name");
  }
  return folder;
}

Result<StoreAddress> parse_run_place(const std::string& text) {
  if (is_cloud_address(text)) {
    ASSIGN_OR_RETURN(StoreAddress address, parse_store_address(text));
    if (!address.prefix.empty()) return address;
    return fail(Code::invalid,
                fmt::format("{} is a whole bucket; name the run's place in it: {}/NAME", text,
                            address.to_string()));
  }
  ASSIGN_OR_RETURN(const fs::path folder, parse_run_folder(text));
  return StoreAddress{.prefix = folder.string()};
}

Result<StoreAddress> run_place(const TrainRequest& request, const RunConfig& config) {
  if (!request.run.empty()) return parse_run_place(request.run);
  return StoreAddress{.prefix = (fs::path(kRunsFolder) / config.recipe).string()};
}

}  // namespace tern
