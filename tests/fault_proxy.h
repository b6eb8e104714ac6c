// A web proxy between a client and a server on loopback that does to requests what bad networks and
// busy servers do, as planned.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"

namespace tern {

enum class WireFault {
  none,
  cut_request,  // half of the request reaches the server, then both connections break
  cut_answer,   // the server has answered; after half of that the connection breaks
  lose_answer,  // the server has answered; the connection breaks before the first byte
  truncate,     // as cut_answer, in the answer's body and with an orderly end
  fail,         // 500; the server is not asked
  busy,         // 503; the server is not asked
  throttle,     // 429; the server is not asked
  repeat,       // the server gets the request twice, and its second answer counts
};

struct WireStep {
  WireFault fault = WireFault::none;
  Milliseconds delay{0};   // before anything else
  int retry_after_s = -1;  // with fail, busy and throttle; -1: not told
};

struct WireRequest {
  int64_t number = 0;  // from 0, in the order in which requests are complete
  std::string method;
  std::string target;  // path and query, as sent
};

// What happens to a request. Called on the proxy's thread.
using WirePlan = std::function<WireStep(const WireRequest&)>;

// One after the other, then nothing more.
WirePlan scripted(std::vector<WireStep> steps);
// Every n-th request meets one of the faults or a delay, drawn by the seed. REQUIRES: every > 0.
WirePlan faulty_share(int64_t every, uint64_t seed);
WirePlan delayed(Milliseconds delay);

// Owned by one test; serves on its own thread until destroyed. Speaks HTTP/1.1 with Content-Length,
// chunks and kept connections, in clear. Requests and answers are held whole, up to 256 MB each.
//
//   FaultProxy proxy(scripted({{.fault = WireFault::lose_answer}}));
//   proxy.lead_to(server.port());
class FaultProxy {
 public:
  explicit FaultProxy(WirePlan plan);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  // Where the server is. Apart from the constructor, as a server may have to be told our port.
  void lead_to(int server_port) { server_port_ = server_port; }
  int port() const { return port_; }

  // How many requests there have been, and how many met which fault (delays are not counted).
  int64_t requests() const;
  std::map<WireFault, int64_t> faults() const;

 private:
  struct Visit;  // a connection from a client, and what is done for it

  void serve(std::stop_token stop);
  void accept_visit();
  void work(Visit& visit);
  void read_client(Visit& visit);
  void take_request(Visit& visit);
  void act(Visit& visit);
  void ask(Visit& visit);
  void hear_server(Visit& visit);
  void tell(Visit& visit);
  void write_client(Visit& visit);

  const WirePlan plan_;
  SystemClock clock_;
  int listener_ = -1;
  int wake_ = -1;
  int port_ = 0;
  std::atomic<int> server_port_{0};

  mutable Mutex mutex_;
  int64_t requests_ GUARDED_BY(mutex_) = 0;
  std::map<WireFault, int64_t> faults_ GUARDED_BY(mutex_);

  std::vector<std::unique_ptr<Visit>> visits_;  // the thread's own
  std::jthread thread_;                         // last: it uses all of the above
};

}  // namespace tern
