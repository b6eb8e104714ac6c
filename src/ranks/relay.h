// Where a machine's ranks connect to, whichever machine is the hub.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <thread>

#include "core/bytes.h"
#include "core/mutex.h"
#include "core/result.h"
#include "ranks/socket.h"

namespace tern {

// Listens on 127.0.0.1, from start() to destruction, with one thread, and passes bytes between each
// connection and the hub's port. It knows nothing of what they say: ranks prove the secret to the
// hub. Safe from any thread. What the other side does not take is not read.
class Relay {
 public:
  static Result<std::unique_ptr<Relay>> start();
  ~Relay();

  // "127.0.0.1:41234"
  const std::string& address() const { return address_; }
  // Closes all connections; later ones go there. Empty: they are closed at once.
  void aim(const std::string& hub);

 private:
  // What one side has said and the other has not yet taken.
  struct Way {
    Bytes bytes;
    bool has_ended = false;
  };
  struct Pipe {
    Descriptor rank;
    Descriptor hub;
    Way to_hub;
    Way to_rank;
  };

  Relay(Listening listening, Descriptor wake);
  void serve(const std::stop_token& stop);
  void take_aim();
  void accept_all();
  static bool pass(int from, int to, Way& way);

  const Descriptor listener_;
  const std::string address_;
  const Descriptor wake_;
  std::list<Pipe> pipes_;  // of the thread
  std::string hub_;        // likewise

  Mutex mutex_;
  std::string wanted_ GUARDED_BY(mutex_);
  bool is_wanted_ GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
