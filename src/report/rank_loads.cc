#include "report/rank_loads.h"

#include <algorithm>

namespace tern {
namespace {

double per_step(double seconds, const RankLoad& load) {
  return seconds / static_cast<double>(load.steps);
}

// Those that did at least half as many steps as the one with most: a rank that came late, or was
// lost early, says little.
std::vector<const RankLoad*> steady(const std::vector<RankLoad>& loads) {
  int64_t steps = 1;
  for (const RankLoad& load : loads) steps = std::max(steps, load.steps);
  std::vector<const RankLoad*> found;
  for (const RankLoad& load : loads) {
    if (load.steps > 0 && load.steps >= steps / 2) found.push_back(&load);
  }
  return found;
}

}  // namespace

RankLoad& RankLoad::operator+=(const RankLoad& more) {
  steps += more.steps;
  busy_seconds += more.busy_seconds;
  wait_seconds += more.wait_seconds;
  data_seconds += more.data_seconds;
  predicted_bytes += more.predicted_bytes;
  sent_bytes += more.sent_bytes;
  received_bytes += more.received_bytes;
  measured_steps += more.measured_steps;
  return *this;
}

GroupTime& GroupTime::operator+=(const GroupTime& more) {
  steps += more.steps;
  step_seconds += more.step_seconds;
  wait_seconds += more.wait_seconds;
  data_seconds += more.data_seconds;
  communication_seconds += more.communication_seconds;
  leader_wait_seconds += more.leader_wait_seconds;
  samples_each += more.samples_each;
  alone_samples += more.alone_samples;
  alone_seconds += more.alone_seconds;
  return *this;
}

std::optional<SlowestRank> find_slowest(const std::vector<RankLoad>& loads) {
  const std::vector<const RankLoad*> ranks = steady(loads);
  if (ranks.size() < 2) return std::nullopt;
  const auto busy = [](const RankLoad* load) { return per_step(load->busy_seconds, *load); };
  const RankLoad* slowest = *std::ranges::max_element(ranks, {}, busy);
  double others = 0;
  for (const RankLoad* load : ranks) others += load == slowest ? 0 : busy(load);
  others /= static_cast<double>(ranks.size() - 1);
  const double seconds = (busy(slowest) - others) * static_cast<double>(slowest->steps);
  if (others <= 0 || seconds <= 0) return std::nullopt;
  return SlowestRank{.name = slowest->name, .seconds = seconds, .ratio = busy(slowest) / others};
}

std::optional<Scaling> scaling_of(const GroupTime& group, const std::vector<RankLoad>& loads) {
  const std::vector<const RankLoad*> ranks = steady(loads);
  if (group.steps <= 0 || group.step_seconds <= 0 || ranks.size() < 2) return std::nullopt;
  const auto compute = [](const RankLoad* load) {
    return per_step(load->busy_seconds - load->data_seconds, *load);
  };
  const double fastest =
      compute(*std::ranges::min_element(ranks, {}, compute)) * static_cast<double>(group.steps);
  const double mean = group.step_seconds - group.wait_seconds - group.data_seconds;
  const double all = group.step_seconds;
  Scaling scaling;
  scaling.is_against_alone = group.alone_samples > 0 && group.alone_seconds > 0;
  const double needed = scaling.is_against_alone
                            ? group.samples_each * group.alone_seconds / group.alone_samples
                            : fastest;
  scaling.efficiency = needed / all;
  scaling.communication = group.communication_seconds / all;
  scaling.data = group.data_seconds / all;
  scaling.straggling =
      (group.wait_seconds - group.communication_seconds + std::max(0.0, mean - fastest)) / all;
  scaling.rest = 1 - scaling.efficiency - scaling.communication - scaling.data - scaling.straggling;
  return scaling;
}

}  // namespace tern
