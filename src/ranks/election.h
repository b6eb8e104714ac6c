// Which machine's supervisor serves the ranks of all: the hub.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "core/clock.h"
#include "ranks/peer_messages.h"

namespace tern {

// A state machine without sockets, threads or a clock of its own, as Roster is. It is for liveness
// alone: two hubs can be for a while (a network that is cut), and the run's lease is what keeps two
// groups from both writing.
//
// Whoever hears of a hub follows the one with the highest term, of two with the same the lowest
// machine. Without one, after all machines are connected or a grace, the lowest connected machine
// becomes it with the next term; those that work go before those that rest. Nobody becomes hub
// while one that is connected follows another: that one is alive, and only this machine is cut off
// from it.
class Election {
 public:
  struct Rules {
    int64_t machine = 0;
    int64_t machines = 1;
    Nanoseconds start_grace = std::chrono::seconds(10);
    Nanoseconds lost_grace = std::chrono::milliseconds(300);
  };
  explicit Election(const Rules& rules) : rules_(rules) {}

  // What this machine does. Never ends its own being the hub.
  void doing(PeerState::Doing doing) { doing_ = doing; }
  // A connected machine's word; the first one is its coming.
  void told(const PeerState& state);
  void went(int64_t machine);
  // After each of these, and several times within each grace.
  void review(Nanoseconds now);

  int64_t hub() const { return hub_; }  // -1: none
  int64_t term() const { return term_; }

 private:
  // Higher is better.
  struct Claim {
    int64_t term = -1;
    int64_t machine = -1;
    bool beats(const Claim& other) const {
      return term != other.term ? term > other.term : machine < other.machine;
    }
  };
  std::optional<Claim> best_claim() const;
  bool is_beaten() const;
  bool may_stand(Nanoseconds now) const;

  const Rules rules_;
  std::map<int64_t, PeerState> here_;
  PeerState::Doing doing_ = PeerState::Doing::resting;
  int64_t hub_ = -1;
  int64_t term_ = 0;  // of the hub; the highest heard of while there is none
  bool has_had_hub_ = false;
  std::optional<Nanoseconds> alone_since_;
};

}  // namespace tern
