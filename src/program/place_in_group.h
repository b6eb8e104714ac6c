// What a program that runs under tern is told of its group: the variables that torchrun's programs
// read, and tern's own. docs/launch.md lists them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tern {

// One rank's place in one attempt.
struct PlaceInGroup {
  int64_t attempt = 1;  // the group's generation
  int64_t rank = 0;
  std::vector<int64_t> machines;  // of each rank, by rank: the machine's number
  std::string master_address;     // where the programs meet, on rank 0's machine
  int64_t master_port = 0;
  std::string interface;   // of this machine, on the way to the others ("eth0"); empty: not known
  bool has_store = false;  // tern keeps PyTorch's store there; else rank 0's program is to listen

  int64_t world() const { return static_cast<int64_t>(machines.size()); }
  int64_t machine() const { return machines[static_cast<size_t>(rank)]; }
  int64_t local_rank() const;   // among those on the same machine
  int64_t local_world() const;  // how many are there
  int64_t group_rank() const;   // of the machine among those in the group, from 0
  int64_t group_world() const;  // machines in the group
};

struct ProgramFolders {
  std::filesystem::path checkpoints;
  std::filesystem::path notice_file;
  std::string run;     // as it was given; empty: none
  std::string run_id;  // the same for all attempts of a run
};

// Name and value; nothing: the variable is taken away.
using VariableChanges = std::map<std::string, std::optional<std::string>>;
// The numbers of threads and the interfaces that `environment` has are left to it.
VariableChanges program_variables(const PlaceInGroup& place, const ProgramFolders& folders,
                                  const std::vector<std::string>& environment);

// `environment` ("NAME=value") with the changes.
std::vector<std::string> changed(const std::vector<std::string>& environment,
                                 const VariableChanges& changes);

}  // namespace tern
