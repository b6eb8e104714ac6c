// What the supervisors of a run's machines tell each other (docs/format_ranks.md).
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "preempt/notice.h"
#include "ranks/rank_event.h"
#include "ranks/wire.h"

namespace tern {

// Machines of one run; their supervisors are all connected with each other.
inline constexpr int64_t kMachinesMax = 256;

// What a supervisor says of itself, at each change and as its sign of life.
struct PeerState {
  // Part of the format.
  enum class Doing : uint8_t {
    resting,  // no rank was started: it was not told to, yet
    working,
    leaving,  // its ranks have ended for good, and the run goes on elsewhere
    done,     // its ranks have ended because the run has
  };
  int64_t machine = 0;
  int64_t term = 0;  // of the hub that it follows, or the highest that it has heard of
  int64_t hub = -1;  // the machine that it follows, itself included; -1: none
  Doing doing = Doing::resting;
  int64_t alive = 0;  // ranks that run, or will be started again
  int64_t count = 0;  // ranks that it has when it works
  // Of a hub, and handed on by those who follow it.
  bool run_has_ended = false;
  int64_t leader = -1;             // the machine of the last leader
  std::set<int64_t> workers = {};  // machines that are to work

  bool operator==(const PeerState&) const = default;
};

// From a supervisor to the hub, which passes it on to ranks; a wish to stop also to supervisors.
struct PeerNotice {
  int64_t machine = -1;  // whose ranks; -1: all
  Notice notice;

  bool is_same(const PeerNotice& other) const {
    return machine == other.machine && notice.kind == other.notice.kind &&
           notice.source == other.notice.source && notice.unix_ms == other.notice.unix_ms &&
           notice.id == other.notice.id;
  }
};

// What comes of the connection with another machine's supervisor.
struct PeerWord {
  enum class Kind { came, went, failed, state, event, notice };
  Kind kind = Kind::came;
  int64_t machine = 0;   // whose connection
  bool is_dead = false;  // went: its process has ended, as its closed connection tells
  std::string why = "";  // failed: no connection, and no other try will change that
  PeerState state = {};
  RankEvent event = {};  // from the hub, of a rank of this machine
  PeerNotice notice = {};
};

Bytes encode(const PeerState& state);
Bytes encode(const PeerNotice& notice);
Bytes encode(const RankEvent& event);
// Of one of these frames, from `machine`; `corrupt` for everything else.
Result<PeerWord> decode_peer_word(int64_t machine, BytesView frame);

}  // namespace tern
