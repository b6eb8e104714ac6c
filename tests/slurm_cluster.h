// A real Slurm of three nodes on this machine, with keys, ports and folders of its own.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "process.h"

namespace tern {

// munged, slurmctld and a slurmd for each of the nodes n1, n2 and n3. Owned by one test; all jobs
// end with the object. Needs the packages slurm-wlm and munge.
class SlurmCluster {
 public:
  explicit SlurmCluster(std::filesystem::path folder);
  ~SlurmCluster();

  // What Slurm's commands need to find it.
  std::map<std::string, std::string> environment() const;
  // One of Slurm's commands; its stdout without the last newline. The test fails if it does.
  std::string ask(const std::vector<std::string>& command) const;
  // A job's state, as PENDING; empty: there is none.
  std::string state_of(const std::string& job) const;
  // What an administrator does who does not want to wait for Slurm's pause before a requeued job
  // starts again; to be called until it runs. Not in the first two seconds: a node refuses a job
  // that starts in the same second in which it was told to end it, and Slurm lets it fail.
  void start_now(const std::string& job);
  // Brings a node back that was set down, unless Slurm has done so itself.
  void resume(const std::string& node) const;

 private:
  void start(const std::vector<std::string>& command);

  const std::filesystem::path folder_;
  SystemClock clock_;
  std::map<std::string, Nanoseconds> waiting_since_;  // by job
  std::vector<std::unique_ptr<Process>> daemons_;
};

}  // namespace tern
