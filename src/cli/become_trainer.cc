#include "cli/become_trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/find_libtorch.h"
#include "cli/find_trainer.h"
#include "cli/python_memory.h"
#include "preempt/signal_watcher.h"

namespace tern {
namespace {

// Long enough for a Python on a cold network disk.
constexpr std::chrono::seconds kPythonLimit{5};

// Returns only if it fails.
Error become(const std::filesystem::path& program, const Arguments& arguments,
             const std::vector<EnvironmentChange>& environment) {
  for (const EnvironmentChange& change : environment) {
    if (change.value) {
      setenv(change.name.c_str(), change.value->c_str(), 1);
    } else {
      unsetenv(change.name.c_str());
    }
  }
  std::string name = program.string();
  Arguments copies = arguments;
  std::vector<char*> pointers = {name.data()};
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return fail(Code::unavailable, fmt::format("cannot start {}: {}; was it built for this machine?",
                                             program.string(), std::strerror(errno)));
}

}  // namespace

Result<std::filesystem::path> find_libtorch_of(const Surroundings& surroundings, Clock& clock) {
  return find_libtorch(
      {.given = surroundings.libtorch,
       .programs_folder = surroundings.executable.parent_path(),
       .cache_folder = surroundings.cache,
       .ask_python = [&] { return recall_python_torch(surroundings.cache, clock, kPythonLimit); }});
}

Result<TrainerPrograms> find_trainer_programs(const Surroundings& surroundings) {
  TrainerPrograms programs;
  ASSIGN_OR_RETURN(programs.trainer, find_trainer(surroundings.executable));
  // From here on a notice waits until tern-train can obey it: the mask and what is pending survive
  // exec().
  RETURN_IF_ERROR(SignalWatcher::block_signals());
  SystemClock clock;
  ASSIGN_OR_RETURN(programs.libtorch, find_libtorch_of(surroundings, clock));
  return programs;
}

std::vector<EnvironmentChange> trainer_changes(const Surroundings& surroundings,
                                               const TrainerPrograms& programs,
                                               const TrainerStart& start) {
  const int64_t cores = start.cores > 0 ? start.cores : usable_cores();
  std::vector<EnvironmentChange> changes = trainer_environment(
      programs.libtorch, surroundings.library_path, start.threads > 0 ? start.threads : cores,
      cores, start.portable ? Arithmetic::portable : Arithmetic::native,
      surroundings.own_libraries());
  changes.push_back({kStartedVariable, std::to_string(start.started.count())});
  // Loading LibTorch touches 50 MB piece by piece, which with pages of 2 MB takes a sixth less
  // time. What the user set stays.
  constexpr char kTunables[] = "GLIBC_TUNABLES";
  const auto& variable = surroundings.cloud.variable;
  if (!variable || !variable(kTunables)) changes.push_back({kTunables, "glibc.malloc.hugetlb=1"});
  return changes;
}

Error become_trainer(const Surroundings& surroundings, const TrainerStart& start) {
  std::optional<TrainerPrograms> programs = start.programs;
  if (!programs) {
    Result<TrainerPrograms> found = find_trainer_programs(surroundings);
    if (!found) return found.error();
    programs = std::move(*found);
  }
  return become(programs->trainer, start.arguments,
                trainer_changes(surroundings, *programs, start));
}

}  // namespace tern
