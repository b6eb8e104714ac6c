// Starts the ranks of a run, keeps them together and outlives any of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "ranks/mesh.h"
#include "ranks/options.h"
#include "ranks/rank_process.h"
#include "ranks/status_file.h"

namespace tern {

// How a rank is started, but for what the supervisor adds.
struct RankCommand {
  std::vector<std::string> arguments;    // what follows the program's name
  std::vector<std::string> environment;  // "NAME=value"
};

struct SupervisorSetup {
  RanksOptions options;
  std::optional<MeshPlace> place;     // of this machine among others; none: it is alone
  bool has_boundaries = true;         // ranks come by themselves to the step at which one leaves
  bool ends_orphans = false;          // what a dead rank had started is ended; see orphans.h
  std::filesystem::path status_file;  // empty: none
  std::string title = "tern-train";   // of the ranks' processes, with the run
  std::string run;
  std::filesystem::path program;  // tern-train, or tern
  // Asked at each start; `has_begun` once a group has formed for the first time, anywhere.
  std::function<RankCommand(bool has_begun)> command;
  // Whether a process that ended with this exit code is not to be started again.
  std::function<bool(int exit_code)> is_final;
  // Whether one that ended with this code has seen the run's end: the others end as well.
  std::function<bool(int exit_code)> is_end = [](int exit_code) { return exit_code == 0; };
  Lines::Sink out;  // what the leader prints
  Lines::Sink err;  // what it logs, and what others say with their rank in front
  // How a machine ends that a notice finds resting.
  std::function<int(NoticeKind)> exit_code_of;
  NoticeBoard* board = nullptr;
  Clock* clock = nullptr;
  Log* log = nullptr;
};

// Owned by `tern train --ranks N`, whose main thread runs it: the ranks die with that thread. With
// a place among other machines it is one of several that keep one group together, and starts ranks
// when the hub says so.
class Supervisor {
 public:
  explicit Supervisor(SupervisorSetup setup);
  ~Supervisor();

  // Blocks until all ranks of this machine have ended; the exit code of the one that led last, or
  // if that was on another machine, 0 if one has ended so, else the first one's. An Error if it was
  // killed, if no rank could be started, or, alone, if fewer than ranks.min are left. A machine
  // that was never told to work ends with 0 when the run does.
  Result<int> run();

 private:
  // The place of one rank, whatever process is in it.
  struct Place {
    int64_t id = 0;
    std::optional<RankProcess> process;
    std::optional<Nanoseconds> start_at;  // it is to be started, then
    int64_t rank = 0;                     // in the last generation
    std::string role = "starting";        // for the status
    int64_t pid_start = 0;
    RankProgress progress;
    bool is_in_group = false;      // its process has been
    bool is_dismissed = false;     // it is not needed any more
    int64_t failures = 0;          // ends without a step of its own in between
    std::optional<int> exit_code;  // of the last process
  };

  void begin_work();
  void begin_standby();
  bool has_standby() const;
  bool another_comes_first() const;
  bool has_seen_end() const;
  void dismiss_standby();
  bool is_over();
  PeerState::Doing doing() const;
  void tell_status(bool must);
  Status start(Place& place);
  Status start_those_due();
  void wait_for_news();
  void take_events();
  void obey(const RankEvent& event);
  void note_group(const RankGroup& group, int64_t id);
  void pass_notices();
  Status look_at_processes();
  void note_end(Place& place, int code);
  void end_what_is_left();
  void plan_restart(Place& place, const std::string& how);
  void pass_output(Place& place, bool is_the_end);
  void kill_stragglers();
  int64_t living() const;
  Result<int> result() const;
  std::string prefix_of(const Place& place) const;

  const SupervisorSetup setup_;
  Descriptor wake_;
  std::unique_ptr<Mesh> mesh_;
  StatusFile status_file_;
  std::vector<Place> places_;  // empty: the machine rests
  int64_t leader_ = -1;        // its place; -1: it is on another machine
  int64_t generation_ = 0;
  int64_t step_ = -1;
  bool has_begun_ = false;   // a generation has formed
  bool is_leaving_ = false;  // a notice was passed on
  bool gave_up_ = false;     // too few are left
  bool has_killed_ = false;  // those that did not end by themselves
  int64_t strangers_ = 0;
  std::vector<pid_t> not_ours_;               // children of this process from before
  std::optional<Nanoseconds> orphans_until_;  // set while a dead rank may have left some
  std::optional<Nanoseconds> leader_ended_at_;
};

}  // namespace tern
