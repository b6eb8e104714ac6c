// What ranks and their supervisor tell each other of the group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern {

// Who a rank is, whatever its place in the group. `id` is its place among those that its supervisor
// started, and stays when the process is started again.
struct RankIdentity {
  int64_t machine = 0;
  int64_t id = 0;
  int64_t pid = 0;

  bool operator==(const RankIdentity&) const = default;
};

// One generation of the group, as one of its ranks sees it. Members never change within one.
struct RankGroup {
  int64_t generation = 0;
  int64_t rank = 0;  // of this process in it; 0 leads: it holds the run, saves and records
  int64_t world = 1;
  int64_t source = -1;  // the rank whose state all take; -1: all have the same state, or none has
  int64_t step = -1;    // of that state; -1: nobody has one, the leader restores or starts the run
  // Of the machines that were started together, from their secret, in hexadecimal: a run that is
  // held by another process with the same one is held by a member of this group. Empty: not told.
  std::string group_id;
  // The leader may take the run from a holder that has not given it back: most machines are here,
  // or the last leader is known to be dead. Otherwise that one may go on somewhere else.
  bool may_take_over = true;
  std::string interface_address;     // what this rank's data ports are bound to ("127.0.0.1")
  std::vector<std::string> members;  // by rank: "machine 0, rank 1 (pid 123)": for messages
};

struct RankJoin {
  int64_t step = -1;      // of the state that this process holds; -1: none
  std::string agreement;  // hash of the options that must agree...
  std::string settings;   // ...and their text (a line "key = value" each), to name a difference by
  // Which holder of the run its state descends from: of two states the one with the higher number
  // is the newer, whatever their steps. -1: not told.
  int64_t lease = -1;
  // Of the last generation that this process was in; RankLink fills them in. -1: of none.
  int64_t generation = -1;
  int64_t rank = -1;
};

// What a heartbeat tells.
struct RankProgress {
  int64_t step = -1;      // done; -1: it has told of none
  double rate = 0;        // samples per second, of this rank
  std::string waits_for;  // "" computing; "batch 118: object X, attempt 3"; "all-reduce of step 7"
};

}  // namespace tern
