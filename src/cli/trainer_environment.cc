#include "cli/trainer_environment.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "train/run_config.h"

namespace tern {

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more than 1024 cores, whose mask does not fit.
  const bool fits = sched_getaffinity(0, sizeof set, &set) == 0;
  const int64_t cores = fits ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  return std::max<int64_t>(1, cores);
}

int64_t recorded_threads(const std::filesystem::path& run_folder) {
  std::ifstream file(run_folder / kRunFileObject, std::ios::binary);
  if (!file.is_open()) return 0;
  const std::string text(std::istreambuf_iterator<char>(file), {});
  RunConfig recorded;
  recorded.train.threads = 0;
  describe_run(recorded).load_toml(text, kRunFileObject);
  return recorded.train.threads;
}

int64_t decide_threads(int64_t recorded, int64_t configured, int64_t cores) {
  if (recorded > 0) return recorded;
  return configured > 0 ? configured : cores;
}

std::vector<EnvironmentChange> trainer_environment(const std::filesystem::path& libtorch,
                                                   const std::string& library_path, int64_t threads,
                                                   int64_t cores) {
  const std::string count = std::to_string(threads);
  std::string path = (libtorch / "lib").string();
  // An empty part would mean the current folder.
  if (!library_path.empty()) path += ":" + library_path;

  std::vector<EnvironmentChange> changes = {
      {"LD_LIBRARY_PATH", path},
      {"OMP_NUM_THREADS", count},
      {"MKL_NUM_THREADS", count},
      {kThreadsVariable, count},
  };
  // Threads that wait by spinning are fast while each has a core, and stand in each other's way
  // when they outnumber the cores: an epoch then takes many times as long.
  const bool crowded = threads > cores;
  const auto set_or_unset = [&](const char* name, const char* value) {
    changes.push_back({name, crowded ? std::optional<std::string>(value) : std::nullopt});
  };
  set_or_unset("OMP_WAIT_POLICY", "passive");
  set_or_unset("KMP_BLOCKTIME", "0");
  set_or_unset("GOMP_SPINCOUNT", "0");
  return changes;
}

}  // namespace tern
