// Which machines work and which rest: the hub's decision.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "core/clock.h"
#include "ranks/peer_messages.h"

namespace tern {

// A state machine without a clock of its own, as Roster is. So many machines work; one that was
// away for spare_after gives its place to the lowest that rests. Whoever works already is never
// told to rest.
class Staffing {
 public:
  // Connected machines, this one among them, by what they said last.
  using Here = std::map<int64_t, PeerState>;

  Staffing(int64_t wanted, Nanoseconds spare_after) : wanted_(wanted), spare_after_(spare_after) {}

  // A new hub goes on with those that work.
  void begin(const Here& here);
  // Several times a second.
  const std::set<int64_t>& review(const Here& here, Nanoseconds now);

 private:
  const int64_t wanted_;
  const Nanoseconds spare_after_;
  std::set<int64_t> workers_;
  std::map<int64_t, Nanoseconds> away_since_;
};

// Whether these are most machines of the run: more than half of all that have not ended, spares
// too, or of two halves the one with more of those that were to work at first. The other side of a
// cut has not. Spares count, because one that has stepped in is as good as the machine that it
// stands for; those that are `gone` do not, because they are on nobody's side. REQUIRES: none that
// is gone is here.
bool are_most(const Staffing::Here& here, const std::set<int64_t>& gone, int64_t working,
              int64_t machines);

}  // namespace tern
