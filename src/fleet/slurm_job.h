// A launched run that is a job of Slurm, from the terminals of the machine that launched it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/result.h"
#include "fleet/launch.h"
#include "fleet/launched_run.h"
#include "fleet/slurm_files.h"
#include "fleet/slurm_text.h"

namespace tern {

// Records the run, lays out its folder below `state` and submits the job; nothing is left if that
// fails. The job may wait in the queue for long.
Result<LaunchedRun> launch_by_slurm(const LaunchSetup& setup, const std::filesystem::path& state,
                                    const LaunchedRuns& runs, Clock& clock);

// Owned by one command; safe from several threads. Every call asks Slurm's commands and blocks for
// them.
class SlurmJob {
 public:
  // REQUIRES: run.slurm_job > 0.
  SlurmJob(LaunchedRun run, const std::filesystem::path& state, Clock& clock);

  // What Slurm knows, or has kept, of the job; what the job left itself if Slurm has forgotten it.
  Result<SlurmJobState> ask() const;
  // {"state"} of every machine and what else is known (docs/launch.md); never fails.
  std::vector<nlohmann::json> states() const;
  // As agent_log().
  Result<nlohmann::json> log(size_t machine, int64_t offset, int64_t bytes_max) const;

  // A real notice to one machine, after which all of the job leave and it is requeued.
  // failed_precondition unless it runs.
  Status preempt(size_t machine) const;
  // Has it save itself and stop for good, or takes it out of the queue. True if it has ended within
  // `limit`.
  Result<bool> stop(Nanoseconds limit) const;
  // Ends it with all that belongs to it, and removes its folder.
  Status remove(Nanoseconds grace) const;
  // The words that give a person a shell on a machine, or run one command there; for exec().
  Result<std::vector<std::string>> shell(size_t machine, const std::string& script) const;

 private:
  Status forbid_requeue() const;
  bool wait_for_end(Nanoseconds limit) const;
  Result<std::string> node(size_t machine) const;
  std::string job() const { return std::to_string(run_.slurm_job); }

  const LaunchedRun run_;
  const SlurmFolder folder_;
  Clock& clock_;

  // Logs are asked for often, and each machine's for itself; Slurm is not.
  mutable Mutex mutex_;
  mutable Nanoseconds asked_ GUARDED_BY(mutex_){0};
  mutable bool was_alive_ GUARDED_BY(mutex_) = true;
};

}  // namespace tern
