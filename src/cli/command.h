// The commands of `tern`, one file each. command_table.cc is the list of them; start there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cloud/open_store.h"
#include "core/result.h"
#include "train/run_config.h"

namespace tern {

// What the commands know of the process they run in. main() reads it once; nothing else asks the
// environment.
struct Surroundings {
  std::filesystem::path executable;  // /proc/self/exe's target
  std::string recipes;               // $TERN_RECIPES
  std::string libtorch;              // $TERN_LIBTORCH
  std::string library_path;          // $LD_LIBRARY_PATH
  std::string certificates;          // $CURL_CA_BUNDLE or $SSL_CERT_FILE, as curl reads them
  std::filesystem::path cache;       // $XDG_CACHE_HOME/tern or ~/.cache/tern; empty without a home
  std::filesystem::path state;       // $XDG_STATE_HOME/tern or ~/.local/state/tern; likewise
  std::filesystem::path runtime;     // $XDG_RUNTIME_DIR; empty if there is none
  std::string ssh_config;            // $TERN_SSH_CONFIG, in place of ~/.ssh/config
  CloudSurroundings cloud;           // for buckets

  // A bundle's, beside bin/; empty where there is no such folder.
  std::filesystem::path own_libraries() const {
    std::error_code error;
    std::filesystem::path folder = executable.parent_path().parent_path() / "lib";
    return std::filesystem::is_directory(folder, error) ? folder : std::filesystem::path();
  }
  std::vector<Recipe> list_recipes() const {
    return tern::list_recipes(recipe_folders(executable, recipes));
  }
};

// For commands that a person waits for: a store that does not answer is given up on sooner.
inline constexpr RetryPolicy kImpatient{.deadline = Milliseconds(30'000)};

using Arguments = std::vector<std::string>;  // what follows the command's name

// A command prints its answer to stdout and returns 0, or an exit code (exit_codes.h) after saying
// why on stderr. An Error is printed, and turned into its exit code, by main().
Result<int> train_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> plan_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> eval_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> predict_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> recipes_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> init_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> report_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> tensorboard_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> ls_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> rm_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> checkpoints_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> run_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> doctor_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> launch_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> status_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> logs_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> connect_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> restart_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> stop_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> preempt_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> down_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> agent_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> completion_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> docs_command(const Surroundings& surroundings, const Arguments& arguments);

// What `tern train --options` prints: key, value and explanation of every option.
std::string format_option_help(const OptionSet& set);
// docs/configuration.md.
std::string configuration_page();
// A line or two per recipe, and where they are.
std::string format_recipes(const std::vector<Recipe>& recipes);

// `tern --help`, on a screen of 24 lines by 80 columns.
extern const char kTernHelp[];
// `tern train --help`, and `tern train` without arguments.
extern const char kTrainHelp[];
extern const char kTrainTeach[];

}  // namespace tern
