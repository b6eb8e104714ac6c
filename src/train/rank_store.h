// Where the ranks of a group find each other, as c10d wants it. Speaks LibTorch; plain headers only
// name RendezvousStore.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tern {

class RankLink;

struct RendezvousStore {
  c10::intrusive_ptr<c10d::Store> store;
};

// The keys that the supervisor keeps for a generation.
std::shared_ptr<RendezvousStore> store_over(std::shared_ptr<RankLink> link);

}  // namespace tern
