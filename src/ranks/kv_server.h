// The supervisor's server: keys of the rendezvous, membership, notices, for ranks that have the
// run's secret. It outlives any rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "ranks/rank_hub.h"
#include "ranks/socket_server.h"

namespace tern {

// Listens from start() to destruction, on one address, with one thread. Owned by the supervisor.
// Safe from any thread. What a stranger sends closes that connection and nothing else.
class KvServer {
 public:
  struct Setup {
    std::string address = "127.0.0.1";
    int64_t port = 0;  // 0: the kernel chooses
    Bytes secret;      // kSecretBytes, random
    RosterRules rules;
    RankHub::Limits limits;
    // Called on the server's thread, and must not block. May be empty.
    std::function<void(const RankEvent&)> on_event;
    int64_t machines = 0;                   // as RankHub's
    std::function<void(PeerWord)> on_peer;  // as on_event
    Clock* clock = nullptr;
  };
  static Result<std::unique_ptr<KvServer>> start(const Setup& setup);

  // "127.0.0.1:41234"
  const std::string& address() const { return server_->address(); }

  // To be done on the server's thread, soon, in the order of the calls. Must not block.
  using Order = std::function<void(RankHub& hub, Nanoseconds now)>;
  void order(Order order);
  // To every rank, also those that come later.
  void post(Notice notice);

 private:
  explicit KvServer(RankHub::Setup setup) : hub_(std::move(setup)) {}

  RankHub hub_;                           // of the server's thread
  std::unique_ptr<SocketServer> server_;  // last: it uses the hub
};

}  // namespace tern
