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
#include "core/mutex.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "ranks/kv_server.h"
#include "ranks/options.h"
#include "ranks/rank_process.h"

namespace tern {

// How a rank is started, but for what the supervisor adds.
struct RankCommand {
  std::vector<std::string> arguments;    // what follows the program's name
  std::vector<std::string> environment;  // "NAME=value"
};

struct SupervisorSetup {
  RanksOptions options;
  std::string run;                // for the ranks' titles
  std::filesystem::path program;  // tern-train
  // Asked at each start; `has_begun` once the group has formed for the first time.
  std::function<RankCommand(bool has_begun)> command;
  // Whether a process that ended with this exit code is not to be started again.
  std::function<bool(int exit_code)> is_final;
  Lines::Sink out;  // what the leader prints
  Lines::Sink err;  // what it logs, and what others say with their rank in front
  NoticeBoard* board = nullptr;
  Clock* clock = nullptr;
  Log* log = nullptr;
};

// Owned by `tern train --ranks N`, whose main thread runs it: the ranks die with that thread.
class Supervisor {
 public:
  explicit Supervisor(SupervisorSetup setup);
  ~Supervisor();

  // Blocks until all ranks have ended; the exit code of the one that led last. An Error if that was
  // killed, if no rank could be started, or if fewer than ranks.min are left.
  Result<int> run();

 private:
  // The place of one rank, whatever process is in it.
  struct Place {
    int64_t id = 0;
    std::optional<RankProcess> process;
    std::optional<Nanoseconds> start_at;  // it is to be started, then
    int64_t rank = 0;                     // in the last generation
    int64_t failures = 0;                 // ends without a step of its own in between
    std::optional<int> exit_code;         // of the last process
  };

  Result<KvServer::Setup> server_setup();
  Status start(Place& place);
  Status start_those_due();
  void wait_for_news();
  void take_events();
  void obey(const RankEvent& event);
  void pass_notices();
  Status look_at_processes();
  void note_end(Place& place, int code);
  void plan_restart(Place& place, const std::string& how);
  void pass_output(Place& place, bool is_the_end);
  void kill_stragglers();
  int64_t living() const;
  Result<int> result() const;
  std::string prefix_of(const Place& place) const;

  const SupervisorSetup setup_;
  Bytes secret_;
  Descriptor wake_;
  std::unique_ptr<KvServer> server_;
  std::vector<Place> places_;
  int64_t leader_ = 0;       // its place
  bool has_begun_ = false;   // a generation has formed
  bool is_leaving_ = false;  // a notice was passed on
  bool gave_up_ = false;     // too few are left
  int64_t strangers_ = 0;
  std::optional<Nanoseconds> leader_ended_at_;

  Mutex mutex_;
  std::vector<RankEvent> events_ GUARDED_BY(mutex_);
};

}  // namespace tern
