// The record of a launched run on the machine that launched it, by which other terminals find it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "fleet/agent_files.h"
#include "fleet/hosts.h"

namespace tern {

struct LaunchedMachine {
  FleetMachine machine;
  std::string tern;   // the program on it; empty: it was not brought there yet
  AgentRecord agent;  // pids are 0 until it was started
  std::string peer;   // where the other machines reach it; empty: it has none, or not yet
};

struct LaunchedRun {
  std::string name;
  std::string id;  // marks its processes, on every machine
  int64_t created_unix_ms = 0;
  std::string run;  // where the run is kept; empty: the command decides
  std::vector<std::string> command;
  std::vector<std::string> setup;         // launch.setup, for a machine that is started again
  std::vector<LaunchedMachine> machines;  // spares last
  int64_t slurm_job = 0;                  // 0: its machines have agents

  // How many are to work; the rest are spares.
  size_t working() const;
  std::string mark(size_t machine) const { return id + "-" + std::to_string(machine); }
  // The machine that a person means by its number or its name.
  Result<size_t> find_machine(const std::string& text) const;
};

Bytes format_launched_run(const LaunchedRun& run);
// `corrupt` for what is no such record.
Result<LaunchedRun> parse_launched_run(BytesView text);

// All records of this user: NAME.json below a folder, and NAME.secret beside it, both readable by
// the user alone. Every call may block for the disk; safe from any thread and process.
class LaunchedRuns {
 public:
  // `state` is ~/.local/state/tern or the like.
  explicit LaunchedRuns(const std::filesystem::path& state) : folder_(state / "runs") {}

  // already_exists if a run has the name. Makes the run's secret, which update() leaves alone.
  Status create(const LaunchedRun& run, const std::string& secret) const;
  Status update(const LaunchedRun& run) const;
  // not_found, with the nearest name, if there is none.
  Result<LaunchedRun> open(const std::string& name) const;
  Result<std::string> secret(const std::string& name) const;
  Status remove(const std::string& name) const;
  // In order of name.
  std::vector<std::string> names() const;

  // `invalid` unless it is made of letters, digits, '.', '_' and '-'.
  static Status check_name(const std::string& name);

 private:
  std::filesystem::path record(const std::string& name) const { return folder_ / (name + ".json"); }
  std::filesystem::path secret_file(const std::string& name) const {
    return folder_ / (name + ".secret");
  }

  const std::filesystem::path folder_;
};

}  // namespace tern
