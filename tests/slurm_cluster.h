// A real Slurm of three nodes on this machine, with keys, ports and folders of its own.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

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
  // starts again.
  void start_now(const std::string& job) const;

 private:
  void start(const std::vector<std::string>& command);

  const std::filesystem::path folder_;
  std::vector<std::unique_ptr<Process>> daemons_;
};

}  // namespace tern
