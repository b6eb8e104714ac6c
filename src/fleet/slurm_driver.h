// The two ends of a job inside Slurm: the process of its batch script, and that on each machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// What Slurm tells a job by its environment.
struct SlurmJobPlace {
  std::filesystem::path folder;  // SlurmFolder
  int64_t job = 0;               // SLURM_JOB_ID
  int64_t restarts = 0;          // SLURM_RESTART_COUNT
  std::string nodes;             // SLURM_JOB_NODELIST
  std::string node;              // SLURMD_NODENAME
  std::string cpus;              // SLURM_CPUS_PER_TASK
};

// `tern agent slurm-job FOLDER`, which the batch script becomes: has `srun` prepare all
// machines and, if none of them fails, starts it for each, obeys SlurmPlan, and requeues the job
// when its machines were told to leave. Returns the exit code of the job.
//
// SIGTERM is Slurm's: the job is being taken, and what was told to the machines is enough. Where it
// goes back to the queue, the pause that Slurm sets for a requeued job (2 minutes) is shortened.
Result<int> run_slurm_job(const SlurmJobPlace& place, Clock& clock);

struct SlurmTaskPlace {
  std::filesystem::path folder;
  size_t machine = 0;  // TERN_MACHINE
  std::string peers;   // TERN_PEERS
  std::string node;    // SLURMD_NODENAME
  std::filesystem::path home;
};

// `tern agent slurm-prepare FOLDER` on a machine, before the command is started on any of them:
// runs launch.setup, and sees whether doctor lets it train. The error names the machine. Returns 0.
Result<int> prepare_slurm_machine(const SlurmTaskPlace& place, Clock& clock);

// `tern agent slurm-task FOLDER` on a machine: looks whether the port is free and becomes the
// command. Returns only an exit code or an error.
Result<int> become_slurm_task(const SlurmTaskPlace& place);

}  // namespace tern
