// What ranks did together and what they lost by waiting: for the leader, which keeps the book, and
// for the report, which reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern {

// One rank's part in the steps that several took together.
struct RankLoad {
  std::string name = {};
  int64_t steps = 0;
  double busy_seconds = 0;     // without the wait for others
  double wait_seconds = 0;     // for others, and for the network
  double data_seconds = 0;     // of busy_seconds: for its data
  double predicted_bytes = 0;  // that it sent, by the algorithm
  double sent_bytes = 0;       // sent and received by the kernel's count, in measured_steps
  double received_bytes = 0;
  int64_t measured_steps = 0;

  RankLoad& operator+=(const RankLoad& more);  // the name stays
};

// Of the same steps, together. Seconds are means over the ranks, which differ from step to step.
struct GroupTime {
  int64_t steps = 0;
  double step_seconds = 0;
  double wait_seconds = 0;
  double data_seconds = 0;
  double communication_seconds = 0;  // that even the rank that came last waited: the network's part
  double leader_wait_seconds = 0;
  double samples_each = 0;  // that each rank trained on
  // Of steps that one rank took alone, in the same processes: without its wait for data.
  double alone_samples = 0;
  double alone_seconds = 0;

  GroupTime& operator+=(const GroupTime& more);
};

// The rank that takes longest for a step, against the mean of the others that did about as many.
struct SlowestRank {
  std::string name;
  double seconds = 0;  // that the others waited for it, over all steps
  double ratio = 1;    // its time for a step by the others'
};
std::optional<SlowestRank> find_slowest(const std::vector<RankLoad>& loads);

// How much of n ranks' time one rank would have needed for its n-th of the work, and what ate the
// rest: shares that add up to 1.
struct Scaling {
  double efficiency = 0;
  double communication = 0;
  double straggling = 0;  // waited for the rank that came last, or was slower than the fastest
  double data = 0;
  double rest = 0;
  // The measure is a rank of this run that trained alone; else the fastest of them, without waits.
  bool is_against_alone = false;
};
std::optional<Scaling> scaling_of(const GroupTime& group, const std::vector<RankLoad>& loads);

}  // namespace tern
