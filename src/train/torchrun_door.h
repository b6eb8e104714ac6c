// The way to ranks that torchrun, or whatever else sets its variables, has started.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/metadata_endpoint.h"
#include "train/rank_door.h"

namespace tern {

// What torchrun tells by its environment.
struct TorchrunVariables {
  int64_t rank = 0;
  int64_t world = 1;
  std::string host;
  std::string interface;  // GLOO_SOCKET_IFNAME; may be empty
  int64_t port = 0;
  bool agent_serves = false;  // the rendezvous is torchrun's own; else rank 0 serves it
  std::string attempt;        // told apart in a rendezvous that outlives the ranks
};

// From RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TORCHELASTIC_*. Nothing without WORLD_SIZE,
// or if it is 1; `invalid` if the others are missing or make no sense.
Result<std::optional<TorchrunVariables>> read_torchrun(const VariableReader& variable);

// One group for the life of the process: a rank that is lost ends it, and whoever started the ranks
// starts them again. Blocks until the rendezvous is reached.
Result<std::unique_ptr<RankDoor>> open_torchrun(const TorchrunVariables& variables);

}  // namespace tern
