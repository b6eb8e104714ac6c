// A run file, whole: every folder's options in one struct. No LibTorch: shared by `tern`, which
// checks it, and `tern-train`, which obeys it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cloud/open_store.h"
#include "core/options.h"
#include "dataset/options.h"
#include "loader/options.h"
#include "model/options.h"
#include "preempt/options.h"
#include "ranks/options.h"
#include "storage/options.h"
#include "train/options.h"

namespace tern {

struct RunConfig {
  std::string recipe;  // what the run calls itself; shown in lists and reports
  DataOptions data;
  ImageOptions image;
  AugmentOptions augment;
  LoaderOptions loader;
  ModelOptions model;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainOptions train;
  CheckpointOptions checkpoint;
  LeaseOptions lease;
  PreemptOptions preempt;
  RanksOptions ranks;
  LaunchOptions launch;
  std::vector<DataPhaseOptions> data_phase;  // none: one phase, as the rest says
  std::vector<LrPhaseOptions> lr_phase;
};

// The set points into `config`.
OptionSet describe_run(RunConfig& config);

// What `tern train` was asked for; its flags are defined once, in add_train_flags (train_flags.h).
struct TrainRequest {
  std::string file;                      // a run file, or a recipe's name
  std::string run;                       // folder or address; empty: runs/<recipe>
  std::vector<std::string> assignments;  // --set key=value, in order
  int64_t steps = -1;                    // --steps; -1: not given
  std::string halt_file;                 // empty: none
  std::string from;                      // --from: begin with another run's checkpoint; empty: none
  std::string init;                      // --init: weights to begin with; empty: as the file says
  std::string on_event;                  // --on-event: told when the process ends; empty: nobody
  int64_t ranks = 0;                     // --ranks; 0: not given
  bool fresh = false;
  bool create = false;  // --create: make the bucket if it is not there
};

// A complete run file that ships with tern, known by its name.
struct Recipe {
  std::string name;  // the file's name without .toml
  std::filesystem::path path;
};

// Where recipes are looked for, in order: `given` ($TERN_RECIPES; empty if not set), beside the
// programs, in share/tern/recipes, and for a build folder in the source tree. `executable` is
// /proc/self/exe's target, of `tern` or of `libexec/tern-train`.
std::vector<std::filesystem::path> recipe_folders(const std::filesystem::path& executable,
                                                  std::string_view given);

// Those of all folders, by name; of equal names the first folder's counts.
std::vector<Recipe> list_recipes(const std::vector<std::filesystem::path>& folders);

// The file that a FILE argument means: itself if it exists, has a '/' or ends in .toml, else the
// recipe of that name. not_found, with the nearest recipe, if there is none.
Result<std::filesystem::path> find_run_file(const std::string& file,
                                            const std::vector<Recipe>& recipes);

// Reads the run file (or recipe), then the assignments, then --steps. On success the config is
// resolved and valid, options that must fit together (a drop before the end) included. Otherwise
// the error says what could not be opened, or, as `invalid`, that `problems` has been filled with
// everything wrong at once.
Result<RunConfig> load_run_config(const TrainRequest& request, const std::vector<Recipe>& recipes,
                                  std::vector<Problem>& problems);

// The folder that a DIR|NAME argument means. A NAME (no '/', not "." or "..") is runs/NAME; but if
// that does not exist and a folder of this name holds a run, it is that folder. file:///abs/path is
// /abs/path; other URIs are `invalid`, and so are control characters in the name of a folder that
// is not there yet. Opens and creates nothing.
Result<std::filesystem::path> parse_run_folder(const std::string& text);

// The place that a DIR|NAME|URI argument means: that folder, or in a bucket a prefix, which may not
// be empty. Opens nothing.
Result<StoreAddress> parse_run_place(const std::string& text);

// The place of a request: its --run, else runs/<recipe>.
Result<StoreAddress> run_place(const TrainRequest& request, const RunConfig& config);

// The copy kept with the run.
inline constexpr char kRunFileObject[] = "run.toml";

}  // namespace tern
