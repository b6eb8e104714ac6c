// One rank of any program: joins the group as a trainer's rank does, and runs the program as its
// child for as long as the group lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "program/place_in_group.h"
#include "program/program_child.h"
#include "program/torch_store.h"
#include "ranks/rank_link.h"
#include "ranks/socket_server.h"

namespace tern {

// As a program's own: EX_TEMPFAIL, "I have saved and left; start me again", and what is told for
// one that a wish to stop ended. The same numbers as tern's own (docs/errors.md).
inline constexpr int kProgramPreempted = 75;
inline constexpr int kProgramStopped = 10;
// It ended well, but what it left could not be kept.
inline constexpr int kProgramNotKept = 6;
// There is no such program; as shells say it.
inline constexpr int kProgramNotStarted = 127;

// Set by rank 0 once something was saved in this attempt.
inline constexpr char kSavedKey[] = "saved";

// What happens around an attempt: this one does nothing, which is all for a program without a run.
// Called by the main thread; all may block.
class AttemptWatcher {
 public:
  virtual ~AttemptWatcher() = default;
  // Of rank 0, before any program of the attempt starts: makes the checkpoint folder what the
  // attempt begins from. Returns the checkpoint's number, which the other machines are told.
  virtual Result<int64_t> begin_leading(const PlaceInGroup& /*place*/,
                                        const std::vector<std::string>& /*members*/) {
    return int64_t{0};
  }
  // Of every other rank, and of one whose group may not save for the run.
  virtual void begin_following() {}
  // Of the first rank of another machine, then: makes its folder the same.
  virtual Status follow(int64_t /*checkpoint*/) { return {}; }
  virtual void noticed(const Notice& /*notice*/) {}
  // Its program has failed or was killed, perhaps in the middle of a save. Of every rank.
  virtual void broke_off() {}
  // The next are of rank 0. All programs of the attempt have ended: what they left is to be saved.
  // Why it could not be.
  virtual Status finish(int /*exit_code*/) { return {}; }
  // Its own program failed.
  virtual void failed(const std::string& /*how*/, int /*exit_code*/) {}
  // The attempt is over: another was lost, or wants to be let in.
  virtual void interrupted() {}
};

class ProgramRank {
 public:
  struct Setup {
    std::vector<std::string> words;
    std::vector<std::string> environment;  // "NAME=value": what the program's is made from
    ProgramFolders folders;
    bool leaves_port_free = false;  // the program listens itself
    int64_t machine = 0;
    RankLink* link = nullptr;
    AttemptWatcher* watcher = nullptr;
    NoticeBoard* board = nullptr;  // the link's
    Clock* clock = nullptr;
    Log* log = nullptr;
  };
  explicit ProgramRank(Setup setup) : setup_(std::move(setup)) {}

  // Blocks until the program has ended for good, on all ranks or by a failure of its own; its exit
  // code, or 128 and the signal. REQUIRES: the main thread, with which the program dies.
  Result<int> run();

  // What the programs saved last is not in the store: it is wanted here.
  bool has_lost_save() const { return has_lost_save_; }

 private:
  enum class Why { ended, over, change };
  enum class Blame { nobody, own, another };
  // The exit code; nothing: the group is to form anew.
  Result<std::optional<int>> attempt(const RankGroup& group);
  Result<std::optional<int>> wait_for_another_group();
  Result<PlaceInGroup> find_place(const RankGroup& group);
  Result<int64_t> open_store(const std::string& address);
  Status agree_to_start(const RankGroup& group, PlaceInGroup& place);
  Result<std::optional<int>> run_program(const PlaceInGroup& place);
  Blame find_blame(int exit_code);
  Why watch(ProgramChild& child, int& exit_code);
  void take_notice();
  void pass_notice(const ProgramChild& child);
  Status tell_end(const PlaceInGroup& place);
  Result<std::optional<int>> wait_for_others(const PlaceInGroup& place, int exit_code);
  Result<int> finish(const PlaceInGroup& place, int exit_code);
  int finish_leading(int exit_code);
  int give_up(const PlaceInGroup& place, int exit_code);
  bool has_progressed();
  std::stop_token noticed() const;
  int code_of_notice() const;

  const Setup setup_;
  bool is_noticed_ = false;
  bool has_lost_save_ = false;
  Nanoseconds started_at_{0};
  // Of rank 0, for an attempt.
  std::unique_ptr<TorchStore> store_;
  std::unique_ptr<SocketServer> server_;  // after the store, which it uses
};

}  // namespace tern
