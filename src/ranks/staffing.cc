#include "ranks/staffing.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace tern {
namespace {

bool can_work(const Staffing::Here& here, int64_t machine) {
  const auto found = here.find(machine);
  return found != here.end() && (found->second.doing == PeerState::Doing::working ||
                                 found->second.doing == PeerState::Doing::resting);
}

}  // namespace

void Staffing::begin(const Here& here) {
  workers_.clear();
  away_since_.clear();
  for (const auto& [machine, state] : here) {
    if (state.doing == PeerState::Doing::working) workers_.insert(machine);
  }
  for (int64_t machine = 0; machine < wanted_; ++machine) {
    if (static_cast<int64_t>(workers_.size()) < wanted_) workers_.insert(machine);
  }
}

const std::set<int64_t>& Staffing::review(const Here& here, Nanoseconds now) {
  std::vector<int64_t> missed;
  for (const int64_t machine : workers_) {
    if (can_work(here, machine)) {
      away_since_.erase(machine);
    } else if (now - away_since_.try_emplace(machine, now).first->second >= spare_after_) {
      missed.push_back(machine);
    }
  }
  for (const int64_t machine : missed) {
    const auto spare = std::ranges::find_if(here, [&](const auto& entry) {
      return can_work(here, entry.first) && !workers_.contains(entry.first);
    });
    if (spare == here.end()) break;
    workers_.erase(machine);
    away_since_.erase(machine);
    workers_.insert(spare->first);
  }
  return workers_;
}

bool are_most(const Staffing::Here& here, const std::set<int64_t>& gone, int64_t working,
              int64_t machines) {
  const auto is_worker = [working](int64_t machine) { return machine < working; };
  const auto count = [&](const auto& those) {
    return static_cast<int64_t>(std::ranges::count_if(those, is_worker));
  };
  const int64_t twice = 2 * static_cast<int64_t>(here.size());
  const int64_t living = machines - static_cast<int64_t>(gone.size());
  if (twice != living) return twice > living;
  return 2 * count(here | std::views::keys) > working - count(gone);
}

}  // namespace tern
