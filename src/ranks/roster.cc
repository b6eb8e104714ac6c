#include "ranks/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "ranks/messages.h"

namespace tern {

void Roster::enter(uint64_t member, const RankIdentity& who, Nanoseconds now) {
  members_[member] = {.who = who, .heard_at = now};
  all_have_left_ = false;
}

void Roster::join(uint64_t member, RankJoin join, Nanoseconds now) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  Member& joining = found->second;
  joining.heard_at = now;
  const std::optional<std::string> difference = difference_to_others(member, join);
  if (difference) {
    actions_.push_back({.kind = RosterAction::Kind::refused, .member = member, .why = *difference});
    joining.join.reset();
  } else {
    joining.known = join;
    generation_ = std::max(generation_, join.generation);
    joining.join = std::move(join);
  }
  if (joining.owes) {
    joining.owes = false;
    if (phase_ == Phase::running) {
      end_generation(now);
      // Nobody waits to be let in, so this is no agreed boundary: its generation failed.
      if (!change_told_) tell_over();
    }
    if (!missed_since_) missed_since_ = now;
  }
  review(now);
}

void Roster::withdraw(uint64_t member, Nanoseconds now) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  found->second.join.reset();
  review(now);
}

void Roster::leave(uint64_t member, Nanoseconds now) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  if (found->second.rank == 0) leader_is_dead_ = true;
  const auto is_another = [member](const auto& entry) {
    return entry.first != member && entry.second.rank >= 0;
  };
  if (found->second.owes && std::ranges::none_of(members_, is_another)) all_have_left_ = true;
  remove(member, now);
  if (phase_ == Phase::ending && rules_.boundary_grace.count() == 0) tell_over();
}

void Roster::lose(uint64_t member, bool is_dead, Nanoseconds now) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  if (found->second.rank == 0) leader_is_dead_ = is_dead;
  const bool was_in_the_generation = found->second.owes;
  remove(member, now);
  if (!was_in_the_generation || phase_ != Phase::ending) return;
  if (!missed_since_) missed_since_ = now;
  tell_over();
}

void Roster::heard(uint64_t member, Nanoseconds now) {
  const auto found = members_.find(member);
  if (found != members_.end()) found->second.heard_at = now;
}

void Roster::expect(int64_t ranks, int64_t max, Nanoseconds now) {
  rules_.expected = ranks;
  rules_.max = max;
  review(now);
}

void Roster::tick(Nanoseconds now) {
  // A supervisor that was itself stopped for a while has heard nobody: it cannot judge.
  const bool was_away = ticked_at_ && now - *ticked_at_ > rules_.timeout / 2;
  ticked_at_ = now;
  const bool all_are_late = is_late(now);
  std::vector<std::pair<uint64_t, std::string>> hung;
  for (auto& [id, member] : members_) {
    if (was_away) member.heard_at = now;
    if (now - member.heard_at > rules_.timeout) {
      hung.emplace_back(
          id, fmt::format("no sign of life for {:.1f} s", to_seconds(now - member.heard_at)));
    } else if (all_are_late && member.owes && !was_away) {
      hung.emplace_back(id, fmt::format("it has not come back to the group for {:.0f} s",
                                        to_seconds(now - ending_since_)));
    }
  }
  for (auto& [id, why] : hung) {
    actions_.push_back({.kind = RosterAction::Kind::hung, .member = id, .why = std::move(why)});
    lose(id, false, now);
  }
  if (phase_ == Phase::ending && now - ending_since_ >= rules_.boundary_grace) tell_over();
  review(now);
}

std::vector<RosterAction> Roster::take_actions() { return std::exchange(actions_, {}); }

void Roster::end_generation(Nanoseconds now) {
  phase_ = Phase::ending;
  ending_since_ = now;
  missed_since_.reset();
  over_told_ = false;
}

bool Roster::is_late(Nanoseconds now) const {
  if (phase_ != Phase::ending) return false;
  return missed_since_ ? now - *missed_since_ > rules_.regroup_limit
                       : now - ending_since_ > rules_.leave_limit;
}

void Roster::tell_over() {
  if (std::exchange(over_told_, true)) return;
  for (const auto& [id, member] : members_) {
    if (member.owes) actions_.push_back({.kind = RosterAction::Kind::over, .member = id});
  }
}

void Roster::remove(uint64_t member, Nanoseconds now) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  const bool was_in_the_generation = found->second.owes;
  members_.erase(found);
  if (was_in_the_generation && phase_ == Phase::running) end_generation(now);
  review(now);
}

void Roster::review(Nanoseconds now) {
  if (phase_ == Phase::running) {
    tell_change();
    return;
  }
  if (waiting() == 0) {
    waiting_since_.reset();
  } else if (!waiting_since_) {
    waiting_since_ = now;
  }
  if (may_form(now)) form();
}

int64_t Roster::waiting() const {
  return std::ranges::count_if(members_,
                               [](const auto& entry) { return entry.second.join.has_value(); });
}

bool Roster::may_form(Nanoseconds now) const {
  const int64_t ready = waiting();
  if (ready < std::max<int64_t>(1, rules_.min)) return false;
  const auto holds_up = [](const auto& entry) { return entry.second.owes; };
  if (std::ranges::any_of(members_, holds_up)) return false;
  const bool has_state = std::ranges::any_of(members_, [](const auto& entry) {
    return entry.second.join && entry.second.join->step >= 0;
  });
  if (has_state && has_formed_) return true;
  if (all_have_left_) return false;
  return ready >= std::min(rules_.expected, rules_.max) ||
         now - *waiting_since_ >= (has_state ? rules_.first_grace : rules_.start_grace);
}

std::pair<int64_t, int64_t> Roster::state_of(const RankJoin& join) {
  return join.step < 0 ? std::pair<int64_t, int64_t>(-1, -1) : std::pair(join.lease, join.step);
}

std::vector<uint64_t> Roster::in_order() const {
  std::vector<uint64_t> order;
  for (const auto& [id, member] : members_) {
    if (member.join) order.push_back(id);
  }
  int64_t newest = 0;
  for (const uint64_t id : order) newest = std::max(newest, members_.at(id).known.generation);
  const auto place = [this, newest](uint64_t id) {
    const Member& member = members_.at(id);
    const RankJoin& told = member.known;
    const bool is_new = told.rank < 0 || told.generation < newest;
    return std::tuple(member.rank < 0, member.rank, is_new, is_new ? 0 : told.rank,
                      member.who.machine, member.who.id);
  };
  std::ranges::sort(order, {}, place);
  // A newcomer's first step takes longer than all that the others lose: after a loss they step
  // first, and take it in at their next step boundary.
  const auto goes_on = [this](uint64_t id) {
    const Member& member = members_.at(id);
    return member.rank >= 0 && member.join->step >= 0;
  };
  const int64_t left = std::ranges::count_if(order, goes_on);
  if (over_told_ && left >= std::max<int64_t>(1, rules_.min))
    std::erase_if(order, std::not_fn(goes_on));
  if (order.size() > static_cast<size_t>(rules_.max)) order.resize(static_cast<size_t>(rules_.max));
  return order;
}

void Roster::form() {
  const std::vector<uint64_t> order = in_order();
  RankGroup group{.generation = ++generation_, .world = static_cast<int64_t>(order.size())};
  // A dead leader leaves the run to its group only if it could have it: one that is cut off from
  // most machines may have lost it to theirs before it died.
  group.may_take_over = may_take_over_ || (leader_is_dead_ && leader_could_take_over_);
  leader_could_take_over_ = group.may_take_over;
  bool all_equal = true;
  std::pair<int64_t, int64_t> newest(-1, -1);
  for (const uint64_t id : order) {
    const Member& member = members_.at(id);
    const auto rank = static_cast<int64_t>(group.members.size());
    group.members.push_back(describe_member(member.who, rank));
    const std::pair<int64_t, int64_t> state = state_of(*member.join);
    all_equal = all_equal && (rank == 0 || state == newest);
    if (state > newest) {
      newest = state;
      group.step = member.join->step;
      group.source = rank;
    }
  }
  if (all_equal) group.source = -1;
  for (auto& [id, member] : members_) member.rank = -1;
  for (const uint64_t id : order) {
    Member& member = members_.at(id);
    member.rank = group.rank;
    member.owes = true;
    member.join.reset();
    actions_.push_back({.kind = RosterAction::Kind::formed, .member = id, .group = group});
    ++group.rank;
  }
  phase_ = Phase::running;
  has_formed_ = true;
  leader_is_dead_ = false;
  world_ = group.world;
  change_told_ = false;
  waiting_since_.reset();
  tell_change();
}

void Roster::tell_change() {
  const bool is_wanted = waiting() > 0 && world_ < rules_.max;
  if (std::exchange(change_told_, is_wanted) == is_wanted) return;
  for (const auto& [id, member] : members_) {
    if (!member.owes) continue;
    actions_.push_back({.kind = RosterAction::Kind::change, .member = id, .is_wanted = is_wanted});
  }
}

std::optional<std::string> Roster::difference_to_others(uint64_t member,
                                                        const RankJoin& join) const {
  for (const auto& [id, other] : members_) {
    const bool has_joined = other.owes || other.join;
    if (id == member || !has_joined || other.known.agreement == join.agreement) continue;
    std::string difference = settings_difference(other.known.settings, join.settings);
    if (difference.empty()) difference = "they differ in something that has no name";
    return fmt::format(
        "the settings of this rank are not those of {}: {}; start all ranks with "
        "the same run file and flags",
        describe_member(other.who, other.rank < 0 ? other.who.id : other.rank), difference);
  }
  return std::nullopt;
}

}  // namespace tern
