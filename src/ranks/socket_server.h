// One listening socket with its connections, served by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/result.h"
#include "ranks/socket.h"

namespace tern {

// What is said on connections: bytes go in, bytes come out, without sockets. A SocketServer calls
// it on its thread alone; the fuzzers call it, too.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  // A new connection's number, from 1.
  virtual uint64_t open(Nanoseconds now) = 0;
  virtual void receive(uint64_t connection, BytesView bytes, Nanoseconds now) = 0;
  // The other side has closed it, so its process has ended; or else it cannot be reached.
  enum class End { closed, cut };
  virtual void close(uint64_t connection, Nanoseconds now, End end) = 0;
  // Several times a second.
  virtual void tick(Nanoseconds now) = 0;
  // What is to be written to a connection; the caller takes from its beginning. Nothing for one
  // that is to be closed, or is unknown.
  virtual Bytes* output(uint64_t connection) = 0;
  // Connections that are to be closed; each is told once, and forgotten here.
  virtual std::vector<uint64_t> take_condemned(Nanoseconds now) = 0;
};

// Listens from start() to destruction, on one address. Safe from any thread.
class SocketServer {
 public:
  struct Setup {
    std::string address = "127.0.0.1";
    int64_t port = 0;                      // 0: the kernel chooses
    ConnectionHandler* handler = nullptr;  // outlives the server
    Clock* clock = nullptr;
  };
  static Result<std::unique_ptr<SocketServer>> start(const Setup& setup);
  ~SocketServer();

  // "127.0.0.1:41234"
  const std::string& address() const { return address_; }

  // To be done on the server's thread, soon, in the order of the calls; also if it ends. Must not
  // block.
  using Order = std::function<void(Nanoseconds now)>;
  void order(Order order);

 private:
  SocketServer(const Setup& setup, Listening listening, Descriptor poller, Descriptor wake);
  void serve(const std::stop_token& stop);
  void take_orders();
  void accept_all();
  void read_from(uint64_t connection);
  void write_all();
  void close_condemned();
  void watch(int socket, uint64_t connection, bool for_output, int operation);

  struct Peer {
    Descriptor socket;
    size_t sent = 0;  // of its output, whose beginning is not cut off for each few bytes
    bool waits_for_output = false;
  };

  ConnectionHandler* const handler_;
  Clock* const clock_;
  const Descriptor listener_;
  const std::string address_;
  const Descriptor poller_;  // epoll
  const Descriptor wake_;
  std::map<uint64_t, Peer> peers_;  // of the thread, by the handler's numbers
  bool is_full_ = false;            // of the thread: no descriptor for another connection

  Mutex mutex_;
  std::vector<Order> orders_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
