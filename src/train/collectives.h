// What the ranks of one generation do together: sums and broadcasts, over c10d (Gloo), and by NCCL
// for what is on a GPU. LibTorch stays inside; collectives_torch.h is for the files that speak it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"
#include "train/peer_sockets.h"

namespace tern {

struct RendezvousStore;  // rank_store.h: where the ranks of a group find each other

// Where groups end that nobody waits for any more: threads of Gloo may still hang in them, on a
// peer that neither answers nor is gone, until their own limit of 10 minutes. Owned by whoever
// makes groups, and outlives them; its end waits a second for what is left and then leaves it
// behind.
class Graveyard {
 public:
  Graveyard();
  ~Graveyard();

  struct Threads;
  Threads& threads() { return *threads_; }

 private:
  std::unique_ptr<Threads> threads_;
};

// What a group has cost so far.
struct CommunicationUse {
  int64_t bytes = 0;                    // that this rank sent, by the algorithm (ring_bytes.h)
  Nanoseconds waited{0};                // for others
  std::optional<SocketBytes> measured;  // of the group's connections, where the kernel tells
};

// Owned by the step loop; one thread, and autograd's while that thread waits for it. Every rank
// makes the same calls in the same order. Nothing waits for Gloo alone: as soon as the generation
// is over, or a peer's connection breaks, a wait ends with `unavailable`, is_broken() is true, and
// the group is of no further use.
class Collectives {
 public:
  struct Setup {
    int64_t rank = 0;
    int64_t world = 1;
    std::string address;                     // what this rank's data ports are bound to
    bool has_gpu = false;                    // and so have all others: cuda:0 of each process
    std::shared_ptr<RendezvousStore> store;  // of this generation alone
    std::stop_token over;                    // fires when the generation is over
    Clock* clock = nullptr;                  // outlives the group
    Graveyard* graveyard = nullptr;          // likewise
  };
  // Connects to all the others, which must do the same. `unavailable` if one does not come.
  static Result<std::unique_ptr<Collectives>> open(const Setup& setup);
  ~Collectives();

  int64_t rank() const { return setup_.rank; }
  int64_t world() const { return setup_.world; }
  bool is_broken() const;
  CommunicationUse use() const;
  // Whether the owner's thread waits for others just now. Of any thread.
  bool is_waiting() const;

  // The sum over all ranks, element by element, the same bits on each.
  Result<std::vector<double>> sum(std::vector<double> numbers);
  // What rank `source` has; the others' `bytes` are not looked at.
  Result<Bytes> broadcast(Bytes bytes, int64_t source);

  struct Torch;
  Torch& torch() { return *torch_; }

 private:
  Collectives(const Setup& setup, std::unique_ptr<Torch> torch);

  const Setup setup_;
  const std::unique_ptr<Torch> torch_;
};

}  // namespace tern
