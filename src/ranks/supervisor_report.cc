// What a supervisor passes on of its ranks, and says of them in the end.
#include <fmt/format.h>

#include "ranks/supervisor.h"

namespace tern {

std::string Supervisor::prefix_of(const Place& place) const {
  return place.id == leader_ ? "" : fmt::format("[rank {}] ", place.rank);
}

void Supervisor::pass_output(Place& place, bool is_the_end) {
  const std::string prefix = prefix_of(place);
  const auto to_err = [&](std::string_view line) {
    setup_.err(prefix.empty() ? std::string(line) : prefix + std::string(line));
  };
  // What others than the leader print is no answer of the program.
  const Lines::Sink to_out = prefix.empty() ? setup_.out : Lines::Sink(to_err);
  if (is_the_end) {
    place.process->finish_output(to_out, to_err);
  } else {
    place.process->read_output(to_out, to_err);
  }
}

void Supervisor::tell_status(bool must) {
  if (!status_file_.is_wanted()) return;
  const PeerState::Doing now = doing();
  SupervisorStatus status{.machine = mesh_->machine(),
                          .hub = mesh_->hub(),
                          .term = mesh_->term(),
                          .state = now == PeerState::Doing::working   ? "working"
                                   : now == PeerState::Doing::resting ? "resting"
                                                                      : "ending",
                          .generation = generation_,
                          .step = step_};
  for (const Place& place : places_) {
    status.ranks.push_back({.id = place.id,
                            .pid = place.process ? place.process->pid() : 0,
                            .pid_start = place.process ? place.pid_start : 0,
                            .rank = place.rank,
                            .role = place.role,
                            .step = place.progress.step,
                            .rate = place.progress.rate,
                            .waits_for = place.progress.waits_for});
  }
  status_file_.tell(status, setup_.clock->now(), must);
}

Result<int> Supervisor::result() const {
  if (gave_up_) {
    return fail(Code::unavailable,
                fmt::format("fewer than {} ranks are left (ranks.min); what they said is above. "
                            "Start the run again to go on, or lower ranks.min",
                            setup_.options.min));
  }
  if (places_.empty()) {
    return is_leaving_ ? setup_.exit_code_of(setup_.board->notice()->kind) : 0;
  }
  std::optional<int> code;
  if (leader_ >= 0) {
    code = places_[static_cast<size_t>(leader_)].exit_code;
  } else {
    for (const Place& place : places_) {
      const int ended = place.exit_code.value_or(-1);
      if (ended >= 0 && (!code || ended == 0)) code = ended;
    }
  }
  if (code && *code >= 0) return *code;
  return fail(Code::unavailable,
              fmt::format("rank 0 {}; what it said is above. Start the run again to go on",
                          code ? how_it_ended(*code) : "was not started"));
}

}  // namespace tern
