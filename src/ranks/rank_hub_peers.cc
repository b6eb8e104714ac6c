// What the hub has to do with the supervisors of other machines.
#include <utility>

#include "ranks/rank_hub.h"

namespace tern {

void RankHub::serve(const RosterRules& rules, Nanoseconds now) {
  send_ranks_away(now);
  setup_.rules = rules;
  roster_ = Roster(rules);
  keys_.clear();
  keys_of_ = 0;
  notices_.clear();
  serves_ = true;
}

void RankHub::refuse_ranks(Nanoseconds now) {
  send_ranks_away(now);
  serves_ = false;
}

void RankHub::send_ranks_away(Nanoseconds now) {
  std::vector<uint64_t> ranks;
  for (const auto& [id, connection] : connections_) {
    if (connection.is_rank) ranks.push_back(id);
  }
  for (const uint64_t id : ranks) condemn(id, "another supervisor is the hub", now);
}

void RankHub::send(int64_t machine, BytesView frame) {
  for (auto& [id, connection] : connections_) {
    if (connection.is_peer && connection.who.machine == machine) connection.output += frame;
  }
}

void RankHub::drop_silent_peers(Nanoseconds now) {
  // A supervisor that was itself stopped for a while has heard nobody: it cannot judge.
  const bool was_away = ticked_at_ && now - *ticked_at_ > setup_.rules.timeout / 2;
  ticked_at_ = now;
  std::vector<uint64_t> silent;
  for (auto& [id, connection] : connections_) {
    if (was_away) connection.heard_at = now;
    if (connection.is_peer && now - connection.heard_at > setup_.rules.timeout) {
      silent.push_back(id);
    }
  }
  for (const uint64_t id : silent) condemn(id, "no sign of life", now);
}

}  // namespace tern
