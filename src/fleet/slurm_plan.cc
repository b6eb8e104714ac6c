#include "fleet/slurm_plan.h"

#include <algorithm>

namespace tern {
namespace {

// Of docs/errors.md; tern never renumbers them.
constexpr int kDone = 0;
constexpr int kHeldByAnother = 5;
constexpr int kStopped = 10;
constexpr int kPreempted = 75;
constexpr int kTerminated = 128 + 15;  // of SIGTERM, before it could obey
constexpr int kFinal[] = {kDone, 2, 3, 4, kHeldByAnother, 8, kStopped, kPreempted, 130};

constexpr int64_t kFailuresMax = 5;
constexpr int64_t kMovesMax = 10;
constexpr Nanoseconds kPause = std::chrono::milliseconds(250);
constexpr Nanoseconds kPauseMax = std::chrono::seconds(8);
constexpr Nanoseconds kGoodWhile = std::chrono::seconds(60);

Nanoseconds pause_after(int64_t failures) {
  return std::min(kPauseMax, kPause * (int64_t{1} << std::min<int64_t>(failures - 1, 10)));
}

// As a shell tells it.
int shell_code(int code) { return code < 0 ? 128 - code : code; }

}  // namespace

SlurmPlan::SlurmPlan(size_t machines, int64_t restarts, Command command)
    : machines_(machines), restarts_(restarts), is_program_(command == Command::program) {}

void SlurmPlan::started(size_t machine, Nanoseconds now) {
  machines_[machine].runs = true;
  machines_[machine].start_at.reset();
  machines_[machine].started = now;
}

void SlurmPlan::ended(size_t machine, int exit_code, Nanoseconds now) {
  Machine& it = machines_[machine];
  it.runs = false;
  const bool was_killed = exit_code < 0;
  // A program's own 143 is what it ends with.
  if (shell_code(exit_code) == kTerminated && (was_killed || !is_program_)) exit_code = kPreempted;
  it.has_no_port = exit_code == kSlurmPortTaken;
  it.exit_code = shell_code(exit_code);
  if (it.has_no_port && attempt_ < kMovesMax) must_move_ = true;
  // Those that were told to make room for new ports leave with 75 as well.
  if (it.exit_code == kPreempted && !must_move_) must_leave_ = true;
  if (must_leave_) {
    for (Machine& other : machines_) other.start_at.reset();
    return;
  }
  if (must_move_) {
    for (Machine& other : machines_) other.start_at.reset();
    if (any_runs()) return;
    must_move_ = false;
    ++attempt_;
    for (Machine& other : machines_) {
      if (other.has_no_port || other.exit_code == kPreempted) other.start_at = now;
    }
    return;
  }
  if (it.has_no_port || !may_try_again(*it.exit_code, was_killed)) return;
  if (now - it.started >= kGoodWhile) it.failures = 0;
  if (++it.failures <= kFailuresMax) it.start_at = now + pause_after(it.failures);
}

bool SlurmPlan::may_try_again(int exit_code, bool was_killed) const {
  if (is_program_) return was_killed;
  // The job was requeued, and what it was before may still be at its last step somewhere.
  if (exit_code == kHeldByAnother && restarts_ > 0) return true;
  return std::ranges::find(kFinal, exit_code) == std::end(kFinal);
}

std::vector<size_t> SlurmPlan::due(Nanoseconds now) const {
  std::vector<size_t> machines;
  for (size_t i = 0; i < machines_.size() && !is_taken_; ++i) {
    if (machines_[i].start_at && *machines_[i].start_at <= now) machines.push_back(i);
  }
  return machines;
}

std::optional<Nanoseconds> SlurmPlan::next_due() const {
  std::optional<Nanoseconds> next;
  for (const Machine& machine : machines_) {
    if (!is_taken_ && machine.start_at && (!next || *machine.start_at < *next)) {
      next = machine.start_at;
    }
  }
  return next;
}

bool SlurmPlan::must_tell_to_leave() const {
  return (must_leave_ || must_move_) && !is_taken_ && any_runs();
}

bool SlurmPlan::any_runs() const { return std::ranges::any_of(machines_, &Machine::runs); }

bool SlurmPlan::any_ended_with(int exit_code) const {
  return std::ranges::any_of(machines_,
                             [=](const Machine& it) { return it.exit_code == exit_code; });
}

std::optional<SlurmPlan::Outcome> SlurmPlan::outcome() const {
  if (any_runs() || next_due()) return std::nullopt;
  for (const int code : {kDone, kStopped}) {
    if (any_ended_with(code)) return Outcome{.exit_code = code};
  }
  // What becomes of a job that Slurm takes is Slurm's to say.
  if (is_taken_) return Outcome{.exit_code = kPreempted};
  if (any_ended_with(kPreempted)) return Outcome{.requeue = true, .exit_code = kPreempted};
  return Outcome{.exit_code = machines_.front().exit_code.value_or(kPreempted)};
}

}  // namespace tern
