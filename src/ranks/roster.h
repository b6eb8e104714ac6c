// Who is in the group: the rules by which generations form and end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "ranks/rank_group.h"

namespace tern {

struct RosterRules {
  int64_t expected = 1;  // ranks that a group without a state is begun with
  int64_t min = 1;
  int64_t max = 1;
  Nanoseconds timeout = std::chrono::seconds(10);  // without a sign of life: hung
  // How long the first of a group without a state waits for the others.
  Nanoseconds start_grace = std::chrono::seconds(10);
  // How long the first generation of this roster waits for `expected` though somebody has a state:
  // those who come from a group that another supervisor led come all at once, or nearly.
  Nanoseconds first_grace{0};
  // How long the others have to come to the same step boundary by themselves, before they are told
  // that the generation is over. 0: they do not come by themselves.
  Nanoseconds boundary_grace = std::chrono::seconds(2);
  // How long a survivor may take to come back to join() where another was lost or waits for it: it
  // may be writing a checkpoint.
  Nanoseconds regroup_limit = std::chrono::seconds(60);
  // The same where all others have left on purpose, so that nobody waits: it saves for all of them,
  // and what hangs altogether is found by `timeout`.
  Nanoseconds leave_limit = std::chrono::hours(1);
};

// One thing to tell, or to do.
struct RosterAction {
  enum class Kind {
    formed,   // `member` is in `group`
    over,     // tell `member` that its generation is over
    change,   // tell `member` whether another waits to be let in (`is_wanted`)
    refused,  // `member` may not join: `why`
    hung,     // `member` gave no sign of life: `why`; it is out already
  };
  Kind kind = Kind::formed;
  uint64_t member = 0;
  RankGroup group;
  bool is_wanted = false;
  std::string why;
};

// A state machine without sockets, threads or a clock of its own: events go in with their time,
// take_actions() says what follows from them. Members have numbers, by which the caller knows them;
// events of unknown ones are ignored.
//
// A generation forms as soon as everybody who was in the last one and lives has joined again, if
// there are at least `min`. Those who wait besides are taken in, up to `max`: after a loss at the
// next step boundary, unless they are needed for `min`. When all of a generation have left on
// purpose, those who wait form none: that takes somebody who comes afterwards. If nobody has a
// state yet, `expected` ranks are waited for, or start_grace. Ranks: the previous leader first,
// then by previous rank; then those that were in the newest generation of another roster, by their
// rank in it; then newcomers by machine and id. The state is that of the newest lease, and of its
// furthest step. Generations are numbered on from the highest that anybody has been in.
class Roster {
 public:
  explicit Roster(const RosterRules& rules) : rules_(rules) {}

  void enter(uint64_t member, const RankIdentity& who, Nanoseconds now);
  void join(uint64_t member, RankJoin join, Nanoseconds now);
  // It no longer waits in join().
  void withdraw(uint64_t member, Nanoseconds now);
  // On purpose, at a step boundary: the others come by themselves.
  void leave(uint64_t member, Nanoseconds now);
  // It is cut off; `is_dead`: known to be dead, as its closed connection tells.
  void lose(uint64_t member, bool is_dead, Nanoseconds now);
  void heard(uint64_t member, Nanoseconds now);
  // So many ranks are there or will come, and so many may take part.
  void expect(int64_t ranks, int64_t max, Nanoseconds now);
  // Whether the leader of a new generation may take the run from its holder, though the last leader
  // is not known to be dead. It may unless told otherwise. Where it may not, the death of a leader
  // that could take the run itself is enough.
  void allow_take_over(bool may) { may_take_over_ = may; }
  // To be called several times within each of the rules' times.
  void tick(Nanoseconds now);

  std::vector<RosterAction> take_actions();

  int64_t generation() const { return generation_; }

 private:
  struct Member {
    RankIdentity who;
    Nanoseconds heard_at{0};
    int64_t rank = -1;             // in the generation that runs or has just ended; -1: newcomer
    bool owes = false;             // is in the generation and has not joined the next
    std::optional<RankJoin> join;  // waits in join()
    RankJoin known;                // what it said last
  };
  enum class Phase { gathering, running, ending };

  void end_generation(Nanoseconds now);
  void tell_over();
  bool is_late(Nanoseconds now) const;
  void remove(uint64_t member, Nanoseconds now);
  void review(Nanoseconds now);
  bool may_form(Nanoseconds now) const;
  void form();
  void tell_change();
  std::vector<uint64_t> in_order() const;
  int64_t waiting() const;
  // What its state is compared by; nothing that is there is less than nothing.
  static std::pair<int64_t, int64_t> state_of(const RankJoin& join);
  std::optional<std::string> difference_to_others(uint64_t member, const RankJoin& join) const;

  RosterRules rules_;
  std::map<uint64_t, Member> members_;
  Phase phase_ = Phase::gathering;
  bool has_formed_ = false;
  bool all_have_left_ = false;  // on purpose: who still waits was not needed
  bool may_take_over_ = true;
  bool leader_is_dead_ = false;  // the last one, for all that is known
  bool leader_could_take_over_ = false;
  int64_t generation_ = 0;
  int64_t world_ = 0;
  bool over_told_ = false;
  bool change_told_ = false;
  Nanoseconds ending_since_{0};
  std::optional<Nanoseconds> missed_since_;   // those who owe are waited for, or one was lost
  std::optional<Nanoseconds> waiting_since_;  // somebody waits, and nobody has a state
  std::optional<Nanoseconds> ticked_at_;
  std::vector<RosterAction> actions_;
};

// The first few settings that differ, each with both values: "train.batch is 64 there and 32 here".
// Settings are TOML as OptionSet::to_toml() writes it. Empty if no line differs.
std::string settings_difference(const std::string& there, const std::string& here);

}  // namespace tern
