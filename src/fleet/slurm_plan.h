// What a job under Slurm does when the command on one of its machines has ended. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/clock.h"

namespace tern {

// How `tern agent slurm-task` ends when somebody else has the port that was meant for it: by this
// signal, because every exit code may be that of the program which it would have become.
inline constexpr int kSlurmPortTakenSignal = 12;  // SIGUSR2
inline constexpr int kSlurmPortTaken = -kSlurmPortTakenSignal;

// Owned by the process of the job, which tells it what has happened and does what it says.
//
// A machine whose command has ended with 75 (it was told to leave) makes all leave and the job go
// back to the queue; one that was killed is started again in its place; all others have ended. A
// training is also started again after exit codes that another try may change; a program has been
// tried often enough by `tern program`.
class SlurmPlan {
 public:
  enum class Command { training, program };
  // `restarts`: how often the job was requeued before.
  SlurmPlan(size_t machines, int64_t restarts, Command command = Command::training);

  // The command on this machine was started, or has ended with this exit code (minus the signal).
  void started(size_t machine, Nanoseconds now);
  void ended(size_t machine, int exit_code, Nanoseconds now);
  // Slurm takes the job away, or back to the queue: nothing is started any more.
  void taken() { is_taken_ = true; }

  // Machines whose command is to be started now, and when the next one is due.
  std::vector<size_t> due(Nanoseconds now) const;
  std::optional<Nanoseconds> next_due() const;
  // Those that still run are to be told that they must leave.
  bool must_tell_to_leave() const;
  // Which try to find free ports this is.
  int64_t attempt() const { return attempt_; }

  struct Outcome {
    bool requeue = false;
    int exit_code = 0;
  };
  // Once nothing runs and nothing is to be started.
  std::optional<Outcome> outcome() const;

 private:
  struct Machine {
    bool runs = false;
    bool has_no_port = false;  // what its command has ended of
    std::optional<Nanoseconds> start_at = Nanoseconds(0);
    Nanoseconds started{0};
    int64_t failures = 0;          // without a good while of life in between
    std::optional<int> exit_code;  // of the last command, a signal's as a shell tells it
  };

  bool may_try_again(int exit_code, bool was_killed) const;
  bool any_runs() const;
  bool any_ended_with(int exit_code) const;

  std::vector<Machine> machines_;
  const int64_t restarts_;
  const bool is_program_;
  bool is_taken_ = false;
  bool must_leave_ = false;  // one was told to, so all are
  bool must_move_ = false;   // a port was taken: all begin again with others
  int64_t attempt_ = 0;
};

}  // namespace tern
