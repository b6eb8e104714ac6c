// From a list of machines to a run that is under way on them.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "fleet/agent_files.h"
#include "fleet/launched_run.h"
#include "fleet/machine_shell.h"
#include "fleet/place_bundle.h"

namespace tern {

struct LaunchSetup {
  LaunchedRun run;       // name, machines (spares last), command and setup; the rest is filled in
  AgentRequest request;  // for every machine, but for its number
  std::vector<std::string> slurm_options;  // of sbatch
  bool needs_trainer = false;              // doctor must pass on every machine
  std::string run_folder;  // which several machines must share; empty: there is none
  std::vector<BundleFile> bundle;
  std::filesystem::path executable;  // tern on this machine
  std::filesystem::path cache;
  std::string version;
  SshSetup ssh;
  // Told in words what happens, from several threads.
  std::function<void(const std::string& sentence)> tell;
};

// Records the run, prepares all machines at once (bundle, setup commands, doctor), agrees on where
// they find each other (meeting.h), and when all are ready starts the command on all of them. If
// any machine fails in any of it, every such machine is named with its reason, what was started is
// ended, and no record is left. Blocks for as long as the slowest machine takes; `stop` is a
// failure like any other.
Result<LaunchedRun> launch(const LaunchSetup& setup, const LaunchedRuns& runs, Clock& clock,
                           std::stop_token stop);

// A door to each machine of the run.
std::vector<MachineShell> open_shells(const LaunchedRun& run, const SshSetup& ssh, Clock& clock);

}  // namespace tern
