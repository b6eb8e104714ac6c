// The words that are said to Slurm's commands, and what is read in theirs. All pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tern {

// `invalid`, with each that is wrong, unless all are options of sbatch that leave to us what we
// decide: --partition=gpu and the like, each one word.
Status check_slurm_options(const std::vector<std::string>& options);

struct SlurmSubmission {
  std::string name;  // of the launched run
  int64_t machines = 1;
  std::filesystem::path script;
  std::filesystem::path log;     // of the job itself
  std::filesystem::path folder;  // to run in
  std::vector<std::string> options;
};

// sbatch and its words.
std::vector<std::string> sbatch_command(const SlurmSubmission& submission);
// What sbatch is given: `tern agent slurm-job FOLDER`.
std::string slurm_script(const std::filesystem::path& tern, const std::filesystem::path& folder);

struct SlurmStepStart {
  size_t machine = 0;
  std::map<std::string, std::string> environment;  // nothing secret: others can read it
  std::string cpus;                                // $SLURM_CPUS_PER_TASK; empty: as Slurm likes
  std::vector<std::string> command;
  bool is_heard = false;  // what it says is said by srun; else it has a log
};

// srun and its words, for one machine of the job.
std::vector<std::string> srun_command(const SlurmStepStart& start);
// How the command of a step has ended, of srun's exit code and what it says: minus the signal that
// killed it, -1 if its node has failed. A command's own exit code may be above 128, too.
int parse_srun_end(int exit_code, std::string_view said);
// Whether it was srun that failed, before it had started the command: a node that has just come
// back, a controller that is busy.
bool has_srun_failed(int exit_code, std::string_view said);
// What the step of a machine is called, by which it is found.
std::string slurm_step_name(size_t machine);

// A path as Slurm takes it for an output file, in which '%' has a meaning.
std::string slurm_output(const std::filesystem::path& path);

// The number that `sbatch --parsable` prints: "12" or "12;cluster".
Result<int64_t> parse_sbatch(std::string_view said);

// A job, as `scontrol show job -o` or sacct describes it.
struct SlurmJobState {
  std::string state;   // PENDING, RUNNING, COMPLETING, COMPLETED, FAILED, CANCELLED, ...
  std::string reason;  // why it waits; empty: no reason
  std::string nodes;   // as "n[1-3]"; empty: none
  int64_t restarts = 0;
  int exit_code = 0;  // minus the signal, if one ended it

  // It has nodes, or is going to have them.
  bool is_alive() const;
  bool is_waiting() const { return state == "PENDING" || state == "REQUEUED"; }
};

// `corrupt` if it is no such text.
Result<SlurmJobState> parse_scontrol_job(std::string_view said);
// Of `sacct -X -n -P -o State,ExitCode`; the last line counts. not_found if there is none.
Result<SlurmJobState> parse_sacct(std::string_view said);

// Step ids ("12.3") by name, of `squeue --steps -h -o %i|%j`.
std::map<std::string, std::string> parse_steps(std::string_view said);

// Names in order, of `scontrol show hostnames`.
std::vector<std::string> parse_hostnames(std::string_view said);
// The address of each node, by its name, of `scontrol show node -o`.
std::map<std::string, std::string> parse_node_addresses(std::string_view said);

// Where a machine of the job listens: 20000 to 29999, another for each machine, restart of the job
// and attempt, and the same whoever computes it.
int slurm_port(int64_t job, int64_t restart, int64_t attempt, size_t machine);

}  // namespace tern
