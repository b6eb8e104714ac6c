// Where the ranks of a PyTorch program meet: the server's side of PyTorch's TCPStore, which tern
// keeps in place of rank 0's program. Nobody has to wait for that program to listen, and the port
// was never free for another to take. docs/format_torch_store.md has the bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "ranks/key_table.h"
#include "ranks/socket_server.h"

namespace tern {

// Of one thread, where nothing else is said. What PyTorch's own server closes a connection for, or
// what would take too much memory, closes that connection, and nothing else happens.
class TorchStore : public ConnectionHandler {
 public:
  struct Limits {
    KeyTable::Limits keys = {.keys = 128 << 10, .key_bytes = 8 << 10, .all_bytes = 256U << 20U};
    size_t queued_bytes = 64U << 20U;   // in all queues; each piece counts 1 KiB more
    size_t message_bytes = 64U << 20U;  // one request
    size_t output_bytes = 256U << 20U;  // not yet taken by one connection
    size_t buffered_bytes = 1U << 30U;  // of requests and answers, of all connections
    size_t connections = 4'096;
    Nanoseconds hello = std::chrono::seconds(60);  // to say that it is PyTorch
  };
  struct Setup {
    Limits limits;
    // Told of each connection that is closed by us, with the reason. May be empty.
    std::function<void(const std::string& why)> on_refused;
  };
  explicit TorchStore(Setup setup) : setup_(std::move(setup)), keys_(setup_.limits.keys) {}

  // From any thread: a program of PyTorch's has come.
  bool was_used() const { return was_used_; }

  uint64_t open(Nanoseconds now) override;
  void receive(uint64_t connection, BytesView bytes, Nanoseconds now) override;
  void close(uint64_t connection, Nanoseconds now, End end = End::closed) override;
  void tick(Nanoseconds now) override;
  Bytes* output(uint64_t connection) override;
  std::vector<uint64_t> take_condemned(Nanoseconds now) override;

 private:
  class Request;
  struct Connection {
    Nanoseconds opened_at{0};
    bool is_known = false;  // it has said that it is PyTorch
    Bytes input;
    Bytes output;
    std::set<Bytes, std::less<>> awaited;  // what it waits for and is not there
    uint64_t waits_since = 0;              // its place among those that wait
  };

  // Takes the first request out of the input; false if it is not all there yet.
  Result<bool> take_request(Connection& connection, size_t& used);
  Status obey(Connection& connection, uint8_t query, Request& request);
  Status obey_for_key(Connection& connection, uint8_t query, Request& request);
  Status obey_for_many(Connection& connection, uint8_t query, Request& request);
  Status obey_for_queue(Connection& connection, uint8_t query, Request& request);
  void wait_for(Connection& connection, const std::vector<BytesView>& keys);
  bool has(BytesView key) const;
  BytesView value_of(BytesView key) const;
  Status set(BytesView key, BytesView value);
  void tell_set(BytesView key);
  void tell_pushed(BytesView key);
  void condemn(uint64_t id, const std::string& why);
  // Over a limit: the connection that holds most goes.
  void bound_buffers();

  const Setup setup_;
  KeyTable keys_;
  std::map<Bytes, std::deque<Bytes>, std::less<>> queues_;  // none is empty
  size_t queued_bytes_ = 0;
  std::map<uint64_t, Connection> connections_;
  std::vector<uint64_t> condemned_;
  std::atomic<bool> was_used_ = false;
  uint64_t last_id_ = 0;
  uint64_t last_wait_ = 0;
};

}  // namespace tern
