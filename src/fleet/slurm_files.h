// The folder of a job under Slurm, on a file system that all its machines have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/result.h"
#include "fleet/agent_files.h"

namespace tern {

// What the job is to run.
struct SlurmRequest {
  AgentRequest command;  // without number and secret
  int64_t machines = 1;
  std::vector<std::string> setup;  // launch.setup
  std::string tern;                // the program
};

// Named by the id of the launched run; docs/launch.md has the files.
class SlurmFolder {
 public:
  explicit SlurmFolder(std::filesystem::path path) : path_(std::move(path)) {}
  // `state` is ~/.local/state/tern or the like.
  static SlurmFolder of_run(const std::filesystem::path& state, const std::string& id) {
    return SlurmFolder(state / "slurm" / id);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path script() const { return path_ / "job.sh"; }
  std::filesystem::path secret() const { return path_ / "secret"; }
  std::string mark(size_t machine) const {
    return path_.filename().string() + "-" + std::to_string(machine);
  }
  std::filesystem::path machine(size_t i) const { return path_ / mark(i); }
  std::filesystem::path log(size_t i) const { return AgentFolder(path_, mark(i)).log(); }
  std::filesystem::path status(size_t i) const { return AgentFolder(path_, mark(i)).status(); }
  // Of the job as a whole, once it will not go on.
  AgentFolder end() const { return AgentFolder(path_); }

  // Makes the folder with all that the job needs, for this user alone.
  Status lay_out(const SlurmRequest& request, const std::string& secret) const;
  Result<SlurmRequest> read_request() const;
  void remove() const;

 private:
  std::filesystem::path path_;
};

}  // namespace tern
