// The supervisor's server: keys of the rendezvous, membership, notices, for ranks that have the
// run's secret. It outlives any rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "ranks/rank_hub.h"
#include "ranks/socket.h"

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
  static Result<std::unique_ptr<KvServer>> start(Setup setup);
  ~KvServer();

  // "127.0.0.1:41234"
  const std::string& address() const { return address_; }

  // To be done on the server's thread, soon, in the order of the calls. Must not block.
  using Order = std::function<void(RankHub& hub, Nanoseconds now)>;
  void order(Order order);
  // To every rank, also those that come later.
  void post(Notice notice);

 private:
  KvServer(Setup setup, Listening listening, Descriptor poller, Descriptor wake);
  void serve(const std::stop_token& stop);
  void take_orders();
  void accept_all();
  void read_from(uint64_t connection);
  void write_all();
  void close_condemned();
  void watch(int socket, uint64_t connection, bool for_output, int operation);

  struct Peer {
    Descriptor socket;
    bool waits_for_output = false;
  };

  const Setup setup_;
  const Descriptor listener_;
  const std::string address_;
  const Descriptor poller_;  // epoll
  const Descriptor wake_;

  RankHub hub_;                     // of the thread
  std::map<uint64_t, Peer> peers_;  // of the thread, by the hub's numbers

  Mutex mutex_;
  std::vector<Order> orders_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
