#include "ranks/election.h"

#include <algorithm>
#include <tuple>

namespace tern {
namespace {

// Who is asked first to be the hub.
int place_of(PeerState::Doing doing) {
  switch (doing) {
    case PeerState::Doing::working: return 0;
    case PeerState::Doing::resting: return 1;
    default: return 2;
  }
}

}  // namespace

void Election::told(const PeerState& state) {
  here_[state.machine] = state;
  if (hub_ < 0) term_ = std::max(term_, state.term);
}

void Election::went(int64_t machine) { here_.erase(machine); }

void Election::review(Nanoseconds now) {
  const bool leads = hub_ == rules_.machine;
  if (leads && !is_beaten()) return;
  if (const std::optional<Claim> best = best_claim()) {
    hub_ = best->machine;
    term_ = best->term;
    has_had_hub_ = true;
    alone_since_.reset();
    return;
  }
  hub_ = -1;
  for (const auto& [machine, state] : here_) term_ = std::max(term_, state.term);
  if (!alone_since_) alone_since_ = now;
  if (!may_stand(now)) return;
  hub_ = rules_.machine;
  ++term_;
  has_had_hub_ = true;
  alone_since_.reset();
}

// Of those that say so themselves: what one hears of others may be long past.
std::optional<Election::Claim> Election::best_claim() const {
  std::optional<Claim> best;
  for (const auto& [machine, state] : here_) {
    const Claim claim{state.term, machine};
    if (state.hub == machine && (!best || claim.beats(*best))) best = claim;
  }
  return best;
}

// Here what one hears of others counts, too: the worst that comes of it is a new election.
bool Election::is_beaten() const {
  const Claim own{term_, rules_.machine};
  return std::ranges::any_of(here_, [&](const auto& entry) {
    const PeerState& state = entry.second;
    return state.hub >= 0 && state.hub != own.machine && Claim{state.term, state.hub}.beats(own);
  });
}

bool Election::may_stand(Nanoseconds now) const {
  const bool is_full = static_cast<int64_t>(here_.size()) + 1 >= rules_.machines;
  const Nanoseconds grace = has_had_hub_ ? rules_.lost_grace : rules_.start_grace;
  const bool may_be_now = now - *alone_since_ >= grace || (is_full && !has_had_hub_);
  if (!may_be_now) return false;
  const std::tuple own(place_of(doing_), rules_.machine);
  return std::ranges::none_of(here_, [&](const auto& entry) {
    const PeerState& state = entry.second;
    const bool follows_another = state.hub >= 0 && state.hub != rules_.machine;
    return follows_another || std::tuple(place_of(state.doing), state.machine) < own;
  });
}

}  // namespace tern
