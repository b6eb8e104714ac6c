// The supervisors of all machines of a run, as one of them sees them: who is the hub, what it says,
// and the hub itself where it is this one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/mutex.h"
#include "ranks/election.h"
#include "ranks/kv_server.h"
#include "ranks/options.h"
#include "ranks/peer_link.h"
#include "ranks/relay.h"
#include "ranks/staffing.h"

namespace tern {

// The machines of a run.
struct MeshPlace {
  int64_t machine = 0;             // this one
  std::vector<std::string> peers;  // control addresses by machine, this one's too, spares last
  int64_t working = 1;             // so many are to work
  Bytes secret;                    // the same on all
};

struct MeshSetup {
  RanksOptions options;
  bool has_boundaries = true;      // ranks come by themselves to the step at which one leaves
  std::optional<MeshPlace> place;  // none: this machine alone, with a secret of its own
  std::function<void()> on_news;   // called from any thread: turn() has something to do
  Clock* clock = nullptr;
  Log* log = nullptr;
};

// Owned by the supervisor; of its thread. The server, the relay and the links to other machines
// have threads of their own, which only leave words here that turn() takes up. Of two machines the
// one with the higher number connects to the other: one connection for each two, which is there for
// both or for none.
class Mesh {
 public:
  static Result<std::unique_ptr<Mesh>> start(MeshSetup setup);
  ~Mesh();

  // What this machine's ranks need to know.
  const std::string& ranks_address() const;
  const std::string& interface_address() const { return interface_; }
  const Bytes& secret() const { return secret_; }
  bool is_meshed() const { return setup_.place.has_value(); }
  int64_t machine() const { return machine_; }

  // Takes up what has happened. Several times a second, and at each news.
  void turn(PeerState::Doing doing, int64_t alive);

  // What this machine has to know, each once.
  std::vector<RankEvent> take_events() { return std::exchange(events_, {}); }
  std::vector<Notice> take_notices() { return std::exchange(heard_, {}); }
  // The hub wants this machine to work; stays so.
  bool should_work() const { return should_work_; }
  bool run_has_ended() const { return run_has_ended_; }
  // So has the machine of the rank that led.
  bool leader_has_ended() const { return leader_has_ended_; }
  // A group has formed somewhere.
  bool has_begun() const { return leader_ >= 0; }
  int64_t hub() const { return election_.hub(); }
  int64_t term() const { return election_.term(); }
  // Others still talk to each other, or wait to hear that the run has ended, through this hub.
  bool is_needed() const;

  // To the ranks of this machine, or of all; also to those that come later, and by later hubs.
  void post(Notice notice, bool to_all);

 private:
  explicit Mesh(MeshSetup setup);
  Status open();
  Status open_links();
  void put_word(PeerWord word);
  void put_event(const RankEvent& event);
  void take_word(PeerWord word);
  void note_end(int64_t machine);
  void take_event(const RankEvent& event);
  void change_hub();
  void lead(Nanoseconds now);
  void spread(const PeerNotice& notice);
  void hand_over(const PeerNotice& notice);
  void tell_state(Nanoseconds now);
  void send(int64_t machine, const Bytes& frame);
  bool leads() const { return election_.hub() == machine_; }
  // REQUIRES: the machine is one of several.
  bool are_most() const;
  RosterRules rules() const;

  const MeshSetup setup_;
  const int64_t machine_;
  std::string interface_;
  Bytes secret_;
  Election election_;
  Staffing staffing_;
  Staffing::Here here_;                          // with this machine's own
  std::pair<int64_t, int64_t> followed_{-1, 0};  // hub and term that all is set up for
  PeerState told_;
  Nanoseconds told_at_{0};
  std::set<int64_t> gone_;  // machines whose supervisor has ended, for all that is known
  int64_t leader_ = -1;     // the machine of the last leader
  // It was with most machines: it may have had the run when it died.
  bool leader_could_take_over_ = false;
  bool leader_is_dead_ = false;
  bool should_work_ = false;
  bool run_has_ended_ = false;
  bool leader_has_ended_ = false;
  std::set<int64_t> workers_;
  std::tuple<int64_t, int64_t, bool> wish_{-1, -1, false};  // that the server knows
  std::vector<PeerNotice> posted_;                          // that a new hub must hear
  std::vector<RankEvent> events_;
  std::vector<Notice> heard_;

  Mutex mutex_;
  std::vector<PeerWord> words_ GUARDED_BY(mutex_);
  std::vector<RankEvent> hub_events_ GUARDED_BY(mutex_);

  // Last: their threads use all of the above.
  std::unique_ptr<KvServer> server_;
  std::unique_ptr<Relay> relay_;
  std::vector<std::unique_ptr<PeerLink>> links_;  // by machine, to the lower ones
};

}  // namespace tern
