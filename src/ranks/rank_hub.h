// The supervisor's side of the protocol (docs/format_ranks.md), without sockets: bytes go in, bytes
// come out. KvServer gives it connections; the fuzzer gives it anything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "preempt/notice.h"
#include "ranks/key_table.h"
#include "ranks/messages.h"
#include "ranks/peer_messages.h"
#include "ranks/rank_event.h"
#include "ranks/roster.h"
#include "ranks/socket_server.h"
#include "ranks/wire.h"

namespace tern {

// Of one thread. A connection that sends anything wrong is to be closed, and nothing else happens;
// so is one that has not proved the secret in time, and one that does not read what it asked for.
class RankHub : public ConnectionHandler {
 public:
  struct Limits {
    size_t strangers = 64;  // connections that have not proved the secret; then the oldest goes
    size_t ranks = 4'096;
    size_t keys_waited_for = 4'096;    // by one rank
    size_t output_bytes = 16U << 20U;  // not yet taken by one rank
    Nanoseconds hello = std::chrono::seconds(5);
  };
  struct Setup {
    Bytes secret;
    RosterRules rules;
    Limits limits;
    std::function<Result<Bytes>()> nonce;
    std::function<void(const RankEvent&)> on_event;
    int64_t machines = 0;  // supervisors with numbers below this may connect
    std::function<void(PeerWord)> on_peer;
  };
  explicit RankHub(Setup setup);

  // A new connection's number; its output has the challenge.
  uint64_t open(Nanoseconds now) override;
  void receive(uint64_t connection, BytesView bytes, Nanoseconds now) override;
  void close(uint64_t connection, Nanoseconds now, End end = End::closed) override;
  void tick(Nanoseconds now) override;

  // To the ranks of one machine or to all, also those that come later; each once.
  void post(const PeerNotice& notice);
  void expect(int64_t ranks, int64_t max, Nanoseconds now) {
    roster_.expect(ranks, max, now);
    act(now);
  }
  void allow_take_over(bool may) { roster_.allow_take_over(may); }
  // Ranks are let in from now on, to a group of this hub's own; from the beginning, if not told
  // otherwise. Those that are there are sent away, and notices are forgotten: the supervisors tell
  // a new hub what still counts.
  void serve(const RosterRules& rules, Nanoseconds now);
  // Another machine's supervisor is the hub: ranks are sent away.
  void refuse_ranks(Nanoseconds now);
  // To a supervisor; nothing if it is not connected.
  void send(int64_t machine, BytesView frame);

  Bytes* output(uint64_t connection) override;
  std::vector<uint64_t> take_condemned(Nanoseconds now) override;

 private:
  struct Waiting {
    int64_t request = 0;
    std::vector<Bytes> keys;
    bool wants_value = false;  // of the first key
  };
  struct Connection {
    Nanoseconds opened_at{0};
    FrameReader frames{kStrangerFrameBytesMax};
    Bytes challenge;
    Bytes output;
    // It has proved the secret, and is one of these.
    bool is_rank = false;
    bool is_peer = false;
    Nanoseconds heard_at{0};  // of a peer; the roster knows for ranks
    RankIdentity who;
    std::optional<int64_t> join;  // the request that waits for a generation
    RankGroup group;
    bool is_over = false;  // its generation: what it waits for will not come
    RankProgress progress;
    bool has_stepped = false;
    std::vector<Waiting> waiting;
  };

  bool is_full(const Connection& connection) const {
    return connection.output.size() > setup_.limits.output_bytes;
  }
  void condemn(uint64_t id, const std::string& why, Nanoseconds now);
  Status obey(uint64_t id, BytesView frame, Nanoseconds now);
  Status take_hello(uint64_t id, BytesView frame, Nanoseconds now);
  Status let_in_rank(uint64_t id, const Hello& hello, Nanoseconds now);
  Status let_in_peer(uint64_t id, const Hello& hello, Nanoseconds now);
  void condemn_same(const Hello& hello, Nanoseconds now);
  void drop_silent_peers(Nanoseconds now);
  void send_ranks_away(Nanoseconds now);
  void tell_peer(PeerWord word) {
    if (setup_.on_peer) setup_.on_peer(std::move(word));
  }
  Status take_request(uint64_t id, Message message, FieldReader& fields, Nanoseconds now);
  Status take_key_request(Connection& connection, Message message, int64_t request,
                          FieldReader& fields);
  Status take_wait(Connection& connection, Message message, int64_t request, FieldReader& fields);
  Status take_news(uint64_t id, Message message, FieldReader& fields, Nanoseconds now);
  // Does what the roster decided.
  void act(Nanoseconds now);
  void act_on(const RosterAction& action, Nanoseconds now);
  void begin_generation();
  static void abort_waiting(Connection& connection);
  void answer_waiting();
  void tell(RankEvent::Kind kind, const Connection& connection, std::string why = "");
  void limit_strangers(Nanoseconds now);

  Setup setup_;  // its rules change with each term
  const std::string group_id_;
  Roster roster_;
  KeyTable keys_;
  std::map<uint64_t, Connection> connections_;
  std::vector<uint64_t> condemned_;
  std::vector<PeerNotice> notices_;
  bool serves_ = true;
  std::optional<Nanoseconds> ticked_at_;
  uint64_t last_id_ = 0;
  int64_t keys_of_ = 0;  // the generation that the keys belong to
  bool keys_grew_ = false;
};

}  // namespace tern
